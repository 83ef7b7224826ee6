"""What a message does, without a language model: a fitted head, and a bank of ordinary phrases that it learns from."""

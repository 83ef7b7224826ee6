"""What a message feels, and whether it leaves the topic: small linear heads over the frozen embedding and n-grams."""

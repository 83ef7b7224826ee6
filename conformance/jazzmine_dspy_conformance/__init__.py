"""Test suites that a store of your own must pass: one for messages, one for working memory."""

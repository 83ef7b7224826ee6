"""Talks with a shop's assistant, as the tests of runtime and dialogue share them."""

from shop_talks import by_hand, chat, decision, floor, make_chat, make_talk, overlap, registry, talk

__all__ = ["by_hand", "chat", "decision", "floor", "make_chat", "make_talk", "overlap", "registry", "talk"]

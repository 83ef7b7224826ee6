"""Suites of tests that a store of one's own must pass: one for each kind of store, run over a harness that makes them.

They need pytest and pytest-asyncio (the extra ``testing``). A harness names its ``capabilities``, what a suite can do
to the store behind its back; tests of others are skipped.
"""

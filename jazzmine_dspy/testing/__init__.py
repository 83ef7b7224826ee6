"""Suites of tests that a store of one's own must pass: one for each kind of store, run over a harness that makes them.

They need pytest and pytest-asyncio (the extra ``testing``). A harness may also do to a store what a suite
cannot wait for, such as damage; tests that need what it does not do are skipped.
"""

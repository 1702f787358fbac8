"""Real processes, really killed: an outside ledger counts what they did.

`python -m tests.chaos` runs a campaign; `test_chaos.py` a small one of the same in the suite.
"""

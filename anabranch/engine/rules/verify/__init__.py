"""Check a log against its definition: every row must follow, and none may be missing.

Pure. `check_log` derives each dispatch, skip and ending again. It shares with the engine only what defines a workflow:
the compiled plan, the templates, the evaluators of pure nodes, the retry policies, the forms of payloads. What it
derives from them (verdicts, joins, skips, iterations, contexts, timers, which signal feeds which wait, how a run ends)
is implemented a second time here, without `decide` and `evolve`, so that a fault on either side shows as a difference.
"""

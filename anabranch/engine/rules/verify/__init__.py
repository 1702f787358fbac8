"""Check a log against its definition: is every row the one that had to follow, and is none missing?

Pure. `check_log` derives each dispatch, skip and ending again. It shares with the engine only what says what a
workflow *means*: the compiled plan, the templates, the evaluators of pure nodes, the retry policies, the forms of
payloads. What it derives from them (verdicts, joins, skips, iterations, contexts, timers, which signal feeds which
wait, how a run ends) has an implementation of its own here, without `decide` and `evolve`: a fault of either side
shows as a difference.
"""

"""Coded workflows: Python functions whose steps survive crashes, and the programs around them.

For their authors: `workflow` declares one (`definition`), `Context` is what it gets (`context`,
`steps`), `StepError` what a failed step raises. `Worker` runs them, `Client` starts and watches them.
`function_run` and `runner` are the inside: they call functions as jobs of the engine, and answer them from
the journal (`engine.rules.coded`).

Imports nothing: a client must not need what workers need.
"""

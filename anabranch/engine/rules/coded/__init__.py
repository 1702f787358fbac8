"""The rules of coded runs: a function whose steps are rows of the same log that drawn runs have.

Pure, like all rules. The theory in short: the workflow function is an activation of its own,
with the node id "" and the workflow's attempt as its attempt. Whatever it asks of its context is a
*step*, stored like a node. The function may be thrown away at any time and called again: what a step
came to is in the log, so it gets the same answers and arrives at the same place (`state.Step`).

A function that only waits is *suspended*: NODE_WAITING of node "". The row that ends one of its steps,
or begins another try of one, makes it run again; no row of its own is needed for that. So "must the
function run?" has one answer, in memory and in the log: `state.running`.

`plan` is what the definition says, `state` and `evolve` are the journal, `decide` judges what
arrives, `places` names steps, `trace` draws the graph that a run has traced.
"""

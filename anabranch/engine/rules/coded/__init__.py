"""The rules of coded runs: a workflow function whose steps are rows of the log.

Pure, like all rules. In short: the workflow function is an activation of its own, with the node id "" and the
workflow's attempt as its attempt. Whatever it asks of its context is a *step*, stored like a node. A call of the
function can be dropped at any time and repeated: the results of steps are in the log, so the next call gets the same
results and reaches the same point (`coded_state.Step`).

A function that only waits is *suspended*: NODE_WAITING of node "". The row that ends one of its steps, or begins
another attempt of one, makes it run again; this needs no separate row. So memory and log agree on whether the function
must run: `state.running`.

`coded_plan` compiles the definition, `coded_state` is the journal, `coded_decide` decides what
follows from a stimulus, `names` names steps, `trace` builds the graph that a run has traced.
"""

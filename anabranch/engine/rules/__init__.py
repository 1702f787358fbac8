"""The pure core: what should happen, decided without await, clock, randomness or I/O.

The theory on one page.

*Events are facts.* An instance is its log: immutable events, numbered by `seq`. `evolve` folds
one event into an `InstanceState`; `fold` does so for a whole log. Nothing else changes a state.

*Decisions are functions.* `decide(state, stimulus, now)` returns the events that follow from what arrived: a handler's
result, a due timer, a signal, a cancel, a takeover. `evolve` applies each event at once, so that the next decision sees
it. A stimulus that no longer applies (a duplicate, a late result) yields nothing.

*Commands are derived.* A decision returns the commands that its events require (run this attempt, wake me then).
`outstanding(state)` derives the same commands from a folded log, so a worker that takes over an instance knows what is
left to do, although no command is stored.

*Every edge gets a verdict.* When a node ends, each of its edges becomes live or dead and is counted at its target. A
target is dispatched when its join is satisfied, or SKIPPED when all its edges are dead; a skip makes its own edges
dead, in the same transaction. So every node of every scope ends, no join hangs, and an instance is done when nothing in
its root scope is left to end.

*Loops are scopes.* An iteration is a scope with its own verdicts, variables and end. It opens
with the first event in it and closes with its last ending; its value is derived then.

*A commit carries transitions.* `plan_transitions` decides many instances' stimuli in memory, one guarded transition
each; `apply_outcome` sorts them by the store's answer. The only await is between the two.

Where to change what: a join mode in `drawn.joins`, a loop rule in `drawn.outcomes`, a new event in `events`,
`event_payloads` and `evolve`, template filters in `templates`, validation at save in `graph.validate`.
"""

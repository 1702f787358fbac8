"""The engine: pure rules, stores for their events, and the shell around both (queues, clocks, leases, commits)."""

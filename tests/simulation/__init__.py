"""Deterministic simulation: the real engine in a made-up world that is as hostile as a seed wants.

`loop` is time and order, `processes` are engines that crash and freeze, `connection` is the network
between them and one memory database, `faults` plans what goes wrong, `workload` is the clients.
`invariants` say what must hold after every commit, `judge` asks them, `rarities` counts what was met.
`world` puts them together; `python -m tests.simulation` runs many of them.
"""

"""The control flow of a graph: its structure, loops, and what can run before what."""

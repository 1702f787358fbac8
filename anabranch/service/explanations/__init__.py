"""Explanations of runs: why a node ran or waits, and the state at any row of the log."""

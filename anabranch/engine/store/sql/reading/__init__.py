"""Reads of the SQL store: runs, logs, lists of runs and counts."""

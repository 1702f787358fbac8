"""Repair of runs: retry."""

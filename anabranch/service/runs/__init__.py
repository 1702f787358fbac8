"""Runs: commands, queries, and their JSON."""

"""Runs: operations that change and read them, and their JSON."""

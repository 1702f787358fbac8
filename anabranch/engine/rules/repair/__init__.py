"""Repair: plans of retries and forks of runs."""

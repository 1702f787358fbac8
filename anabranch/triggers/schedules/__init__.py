"""Schedules: runs that are started by the clock."""

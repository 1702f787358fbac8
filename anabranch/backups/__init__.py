"""Copies of a database, and what becomes of its runs when a copy takes its place.

Called by the commands `backup` and `restore-check`.
"""

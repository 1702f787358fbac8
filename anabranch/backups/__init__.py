"""Copies of a database, and what happens to its runs when a copy replaces it.

Called by the commands `backup` and `restore-check`.
"""

"""Hints between the processes of one database: they shorten polls, and nothing depends on them."""

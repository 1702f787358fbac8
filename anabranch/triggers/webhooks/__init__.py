"""Webhooks: runs that HTTP requests of others start, and addresses in the middle of a run that others call."""

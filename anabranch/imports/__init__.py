"""Workflows of other tools become drafts: the service, its command and its route."""

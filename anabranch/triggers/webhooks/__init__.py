"""Webhooks: HTTP requests that start runs, and one-time addresses that answer a waiting run."""

"""Secrets: values that tenants store encrypted; only nodes that send them can read them."""

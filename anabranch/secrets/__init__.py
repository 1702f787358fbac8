"""Secrets: values that tenants store encrypted, and that only nodes which send them get to see."""

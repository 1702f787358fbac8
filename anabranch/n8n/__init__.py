"""Workflows of n8n: read, mapped to our node types, and reported on. Pure: no database, no network."""

"""Mappings of n8n's types: one module per subject, and the table of all."""

"""Keys, roles and the audit trail, on both databases."""

"""The audit trail: who changed what, in a chain of hashes."""

"""JSON Schema with a bounded cost of checking."""

"""The SQL store, with statements and row formats for all databases."""

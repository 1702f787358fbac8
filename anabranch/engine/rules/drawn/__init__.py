"""The rules of drawn runs: joins, loops, scopes, errors."""

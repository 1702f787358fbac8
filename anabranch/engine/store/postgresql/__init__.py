"""PostgreSQL: one statement and one round trip for everything that is hot."""

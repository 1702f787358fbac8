"""SQLite: one file, one writer thread."""

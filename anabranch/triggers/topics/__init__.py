"""Topics: runs that are started by messages."""

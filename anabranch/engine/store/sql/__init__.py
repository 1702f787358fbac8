"""What every SQL store shares: statements, rows, and the store itself."""

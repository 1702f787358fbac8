"""Run counts, and the removal of ended runs."""

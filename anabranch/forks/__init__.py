"""Forks as APIs offer them: a dry run of a coded one calls the function with the log that the fork would have."""

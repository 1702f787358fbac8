"""Forks for the APIs: a dry run of a coded fork calls the function with the log that the fork would have."""

"""What drawn and coded runs have in common: their state, signals, retries, failures, limits."""

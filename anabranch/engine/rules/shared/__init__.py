"""Rules that drawn and coded runs share: state, signals, retries, failures, limits."""

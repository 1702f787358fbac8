"""Actions on many runs: a coded system workflow, and the service that starts and shows its runs."""

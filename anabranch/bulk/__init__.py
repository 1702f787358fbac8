"""One action on many runs: a coded workflow of the system's own, and what starts and shows its runs."""

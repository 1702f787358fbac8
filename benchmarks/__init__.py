"""Speed, measured as ratios taken in one run. Nothing here is a test; figures go to `benchmarks/README.md`."""

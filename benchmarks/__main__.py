"""`python -m benchmarks` measures the engine."""

from benchmarks.engine import main

main()

"""A store in memory that keeps the promises of the real ones: for tests and the simulator."""

"""The parts of `httpRequest`: who sends a request, and what its answer is as a value."""

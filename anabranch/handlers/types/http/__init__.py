"""The parts of `httpRequest`: who sends a request, and its response as a value."""

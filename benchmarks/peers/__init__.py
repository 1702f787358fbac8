"""Other durable engines and queues beside this one: `python -m benchmarks.peers`."""

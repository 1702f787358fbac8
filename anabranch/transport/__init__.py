"""Node jobs between processes: messages, the queues that carry them, who sends them and who executes them.

docs/executors.md describes the protocol.
"""

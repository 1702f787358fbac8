"""API keys: who may come in, and what they may do."""

"""Which item of another node belongs to the current one, and what n8n's names mean at a node."""

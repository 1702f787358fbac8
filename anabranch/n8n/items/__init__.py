"""Items: find the item of another node that belongs to the current one, and the meaning of n8n's names."""

"""The REST API, asked by a real client over a real socket, on both databases."""

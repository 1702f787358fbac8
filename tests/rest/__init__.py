"""The REST door, asked by a real client over a real socket, on both databases."""

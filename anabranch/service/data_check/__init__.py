"""Check the consistency of all data of a live database: `anabranch doctor --data`."""

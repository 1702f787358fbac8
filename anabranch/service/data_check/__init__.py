"""Check all data of a live database against what is promised about it: `anabranch doctor --data`."""

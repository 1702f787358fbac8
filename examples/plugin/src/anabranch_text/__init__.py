"""Node types about text, for anabranch."""

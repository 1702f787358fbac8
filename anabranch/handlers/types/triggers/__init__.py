"""Node types that begin runs by themselves, one file each."""

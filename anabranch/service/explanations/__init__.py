"""Why a run is where it is, and how it stood at any row of its log."""

"""anabranch: a workflow engine for work that must not get lost."""

"""An independent judge of the engine: a sequential oracle, random workflows, and the engine held against both."""

"""Pages of `docs/reference` that are generated, and the test that keeps them fresh."""

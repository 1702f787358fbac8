"""Changes to single lines of the product, and whether its tests notice: `make mutants`."""

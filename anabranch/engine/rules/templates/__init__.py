"""Templates: `{{ … }}` in texts, compiled once and evaluated over plain data within a budget."""

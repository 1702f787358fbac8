"""The verbs of workflow definitions, and how they look from outside."""

"""The verbs of runs, and how runs look from outside."""

"""Widgets: the output of a run in the form that a chart or table is drawn from."""

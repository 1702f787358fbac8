"""Widgets: the output of a run as the data of a chart, table or number."""

"""Histories: recorded runs with their definitions, checked and replayed apart from any engine."""

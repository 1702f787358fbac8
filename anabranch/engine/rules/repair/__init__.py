"""Repair: what of an ended run goes on, and what is tried again."""

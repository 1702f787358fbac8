"""Coded workflows: behaviours by name, on real databases."""

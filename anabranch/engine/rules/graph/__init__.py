"""Drawn workflows as documents: read, validated, and compiled into the plan that the rules walk."""

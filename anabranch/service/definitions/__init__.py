"""Workflow definitions: validate, save, read and delete them, and their JSON."""

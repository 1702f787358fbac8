"""Drafts of workflows: documents in progress, saved by revision, published as versions."""

"""Drafts of workflows: documents that somebody is still working on, kept by revision, published as versions."""

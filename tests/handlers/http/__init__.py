"""Tests of `httpRequest`."""

"""Tests of variables."""

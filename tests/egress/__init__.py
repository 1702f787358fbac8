"""Tests of the guard on everything that leaves the machine, and the attacks that it withstands."""

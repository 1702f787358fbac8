"""Stores: where instances, their logs and the definitions are kept; `opening` makes them.

What is kept beside runs (keys, secrets, schedules and so on) has its tables in the folder of its subject.
"""

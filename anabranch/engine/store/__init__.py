"""Stores of instances, logs and definitions; `opening` opens them. Tables of side concerns (keys, secrets, schedules
and so on) are in the folders of those.
"""

"""What runs in a driver process: a connection to one data source, under a limit of memory.

These files are loaded by an interpreter of their own (`start_driver.py`), without the rest of the service. The
service imports `wire` and `orders` from here.
"""

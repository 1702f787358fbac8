"""What runs in a driver process: a connection to one data source, under a memory limit.

An interpreter of its own loads these files (`start_driver.py`), without the rest of the service. The service imports
`driver_wire` and `orders` from here.
"""

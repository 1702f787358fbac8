"""The code of a driver process: a connection to one data source, under a memory limit.

A separate interpreter loads these files (`start_driver.py`), without the rest of the service. The service imports
`driver_wire` and `driver_requests` from here.
"""

"""What runs in the sealed processes: the fork server, its children, and the two languages.

These files are loaded by an interpreter of their own that knows nothing of the service: they may
import the standard library, the two language packages and one another, and nothing else of ours.
The service imports only `wire` from here.
"""

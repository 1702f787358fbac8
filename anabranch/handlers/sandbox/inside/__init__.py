"""The code of the sealed processes: the fork server, its children, and the two languages.

A separate interpreter loads these files. They may import the standard library, the two language packages and one
another, nothing else of anabranch. The service imports only `sealed_wire` from here.
"""

"""What runs in the sealed processes: the fork server, its children, and the two languages.

An interpreter of their own loads these files. They may import the standard library, the two language packages and one
another, nothing else of anabranch. The service imports only `sealed_wire` from here.
"""

"""The command line `anabranch`, with tables for people and `--json` for scripts.

One family of commands a file; `entry` puts them together and is the only place where errors
become exit codes. Commands call the services and gateways; none of them knows tables or rules.
"""

"""The command line `anabranch`, with tables for people and `--json` for scripts.

One file per family of commands; `entry` combines them and is the only place where errors become exit codes. Commands
call services and gateways, never tables or rules.
"""

"""The command line: what people type, and what scripts read with `--json`.

One family of commands a file; `entry` puts them together and is the only place where errors
become exit codes. Commands ask the service façade; none of them knows tables or rules of runs.
"""

"""The commands: a file each, imported when its command is typed."""

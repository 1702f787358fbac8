"""Golden logs: runs that older versions recorded, read, folded and brought to their end by this one."""

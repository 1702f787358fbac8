"""One program for each: run in a process of its own, it ends in one line of JSON."""

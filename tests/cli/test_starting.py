"""The first second of a command: what is imported, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys

# Stands in for a slow disk: the import of the command line is where the interrupt comes.
INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys
from anabranch import __main__ as way_in
def import_module(name):
    os.kill(os.getpid(), signal.SIGINT)
way_in.import_module = import_module
way_in.main()
"""


def test_ctrl_c_before_the_command_line_is_there_ends_quietly():
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT
    assert (ended.stdout, ended.stderr) == ("", "")

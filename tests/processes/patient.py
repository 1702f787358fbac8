"""What follows the executions of a stop has 10 s. Imported by processes under test (`--import`) whose stop has to reach
its end, on a machine that does twenty other things too.

In an installation it has 3 s at most, and 1 s with the shortest grace. Past that, leases expire instead of being handed
over, and the exit code is another one.
"""

from anabranch import grace

grace.ENDING_S_MIN = grace.ENDING_S_MAX = 10.0
grace.STOP_S_MIN = 11.0

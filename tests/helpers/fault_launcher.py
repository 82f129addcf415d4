"""Runs a program that is killed at a fault point: ``fault_launcher.py POINT[:NTH] TEXT ARG...``.

The program gets the arguments behind its text. It kills itself, as ``kill -9`` would, the nth time
it reaches the point.
"""

import os
import signal
import sys

from ctsql.runtime.log import fault_points


def arm(fault: str) -> None:
    """Kill this process at a fault point. Args: fault: ``POINT`` or ``POINT:NTH``."""
    target, _, nth = fault.partition(":")
    if target not in fault_points.PROMISES:
        raise ValueError(f"{target} is not in the table of fault points")
    left = int(nth or 1)

    def reached(name: str) -> None:
        nonlocal left
        if name not in fault_points.PROMISES:
            raise ValueError(f"{name} is not in the table of fault points")
        left -= name == target
        if name == target and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    fault_points.hooks.append(reached)


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules are not to hide others
    arm(sys.argv[1])
    text = sys.argv[2]
    sys.argv[:] = ["-c", *sys.argv[3:]]
    exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})

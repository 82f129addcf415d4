"""Which process made a commit, for people who look for its log."""

import os
import socket

PROCESS = "process"
"""Key in the metadata of a commit."""


def this_process() -> str:
    """Host and process id, as ``worker-3:4711``."""
    return f"{socket.gethostname()}:{os.getpid()}"

"""Processes that end with their parent, even when that is killed with -9."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent ends; call it first thing in a child.

    Only Linux can do this. Elsewhere a child ends when its standard input does, or by the next
    run. The signal is tied to the parent's thread that forked, so parents fork from their main one.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)  # the parent ended before the kernel was asked

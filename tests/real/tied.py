"""Runs a command that ends when the thread that started it ends: `tied.py PARENT COMMAND ARGUMENT...`.

A file of its own, run before the command in the new process, as code between fork and exec may hang where a process has
threads. Linux only; elsewhere the command runs untied.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the process that wanted this one is gone")
os.execv(sys.argv[2], sys.argv[2:])

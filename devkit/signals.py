"""Signals of a program that runs in the background of a script.

What belongs here: what a program inherits. What does not: what it does at a signal.
"""

import signal


def restore_interrupts() -> None:
    """Let SIGINT and SIGQUIT end this process and the children that it starts from now on.

    A shell starts the background jobs of a script with both ignored, and children inherit that (POSIX, Shell
    Command Language, 2.12).
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

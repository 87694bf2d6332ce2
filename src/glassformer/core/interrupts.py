"""Ctrl-C: interrupts that cannot get lost, and steps that an interrupt does not divide."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds until a lost interrupt is raised again, and seconds that an interrupted process has to end (conventions).
_AGAIN, _PATIENCE = 0.05, 8.0


@contextmanager
def lasting_interrupts() -> Iterator[None]:
    """Raise an interrupt again for as long as Python drops it.

    Python reports exceptions in callbacks of its garbage collector, in finalizers and in callbacks of weak references,
    and continues. JAX has such a callback, which runs often while it traces functions.

    Example:
        >>> with lasting_interrupts():
        ...     pass
    """
    before = sys.unraisablehook

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            return before(dropped)
        # Raised here, it would be dropped once more.
        timer = threading.Timer(_AGAIN, _interrupt)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt() -> None:
    if hasattr(signal, "pthread_kill"):
        # Unlike interrupt_main, a signal also ends a system call such as sleep.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


def can_be_interrupted() -> bool:
    """Return whether interrupts have a handler, and one that Python can set again after another.

    They have none in jobs that a shell runs in the background.
    """
    return signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Postpone interrupts to the end of the block, which has to be short.

    Example:
        >>> with uninterrupted():
        ...     pass
    """
    # Only the main thread is interrupted.
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not can_be_interrupted():
        yield
        return
    postponed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: postponed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if postponed:
            signal.raise_signal(signal.SIGINT)


def end_when_interrupted(code: int) -> None:
    """End this process some seconds after an interrupt, even if it still computes or compiles outside of Python.

    Args:
        code: exit code of the process.
    """
    import socket

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    # The system's handler writes to the socket at once. Python's own handler waits until the computation returns.
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def watch(writer: socket.socket) -> None:
        while signal.SIGINT not in reader.recv(64):
            pass
        time.sleep(_PATIENCE)
        print("glassformer: interrupted", file=sys.stderr, flush=True)
        os._exit(code)

    # The thread keeps both ends open.
    threading.Thread(target=watch, args=(writer,), daemon=True).start()

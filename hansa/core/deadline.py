"""A deadline for code of others that runs in this thread, as the chat template of a model does."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_seconds(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in this thread where the block takes longer.

    Limits: the exception comes between two bytecodes, so one long call into C is not interrupted.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock, has_ended = threading.Lock(), threading.Event()

    def interrupt() -> None:
        with lock:
            if not has_ended.is_set():
                timeout = ctypes.py_object(TimeoutError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, timeout)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:  # an exception that was set by now comes here; taking it back would not clear its flag
        timer.cancel()
        with lock:
            has_ended.set()

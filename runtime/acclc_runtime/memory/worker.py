"""Calls that are made on a thread of their own, in order, and the handles to wait for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Handle:
    """A call that was begun with ``async_op=True``."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait for the call's end and return its output.

        Raises:
            TimeoutError: it has not ended after ``timeout_s`` seconds; it goes on.
        """
        return self._future.result(timeout_s)

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._future.done()

    def then(self, act: Callable[[BaseException | None], None]) -> None:
        """Call ``act`` with the call's error, or None, when it has ended: on the thread that made it, or here."""
        self._future.add_done_callback(lambda future: act(future.exception()))


class Worker:
    """A thread that runs the calls of a communicator in order."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any], Callable[[], None]] | None]
        self._queue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[], Any], ended: Callable[[], None]) -> Future[Any]:
        """Queue a call; ``ended`` is called after it, before its result is there."""
        future: Future[Any] = Future()
        self._queue.put((future, run, ended))
        return future

    def close(self) -> None:
        """End the thread when all that was submitted has run."""
        self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            future, run, ended = item
            try:
                result = run()
            except BaseException as error:
                ended()
                future.set_exception(error)
            else:
                ended()
                future.set_result(result)
            del item, future, run

"""Starts a process for each rank on this machine, joins them, and collects what they return."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import secrets
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, RankFailedError
from acclc_runtime.memory.bootstrap import SPAWNED

_GRACE_S = 5.0
"""For the others to notice by themselves that a rank failed, beyond which they are ended."""
_PR_SET_PDEATHSIG = 1


def spawn(
    fn: Callable[..., Any],
    ranks: int,
    artefact: str | os.PathLike[str],
    args: Sequence[Any] = (),
    *,
    method: str = "spawn",
    timeout_s: float | None = None,
    entry_timeout_s: float | None = None,
    grace_s: float = _GRACE_S,
    transport: str = "memory",
) -> list[Any]:
    """Run ``fn(comm, *args)`` in ``ranks`` new processes, each with its communicator; return the results by rank.

    ``artefact`` is the folder. ``fn`` and ``args`` go to the processes by pickle: ``fn`` is a function of a module.
    ``method`` is how processes start (see multiprocessing: spawn, fork, forkserver); ``transport`` memory or cuda.

    Raises:
        AcclcRuntimeError: what the first failing rank raised, where it is one of ours; its text names the rank.
        RankFailedError: a rank raised something else (its cause, if it can be pickled), or its process ended.
    """
    if ranks < 1:
        raise ArgumentError(f"ranks={ranks!r}: at least one rank is needed")
    context: Any = multiprocessing.get_context(method)
    bootstrap = f"{SPAWNED}{secrets.token_hex(16)}"
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for rank in range(ranks):
            here, there = context.Pipe(duplex=False)
            settings = (str(Path(artefact).resolve()), bootstrap, rank, ranks, timeout_s, entry_timeout_s, transport)
            arguments = (there, os.getpid(), settings, fn, tuple(args))
            process = context.Process(target=_rank_main, args=arguments, daemon=True)
            process.start()
            there.close()
            started.append((process, here))
        return _collect(started, grace_s)
    finally:
        for process, connection in started:
            if process.is_alive():
                process.kill()
            process.join()
            connection.close()


def _rank_main(
    connection: Connection, parent: int, settings: tuple[Any, ...], fn: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    from acclc_runtime.loader import load

    _die_with(parent)
    folder, bootstrap, rank, world, timeout_s, entry_timeout_s, transport = settings
    try:
        comm = load(folder).join(
            bootstrap, transport, rank=rank, world=world, timeout_s=timeout_s, entry_timeout_s=entry_timeout_s
        )
        with comm:
            answer = pickle.dumps((True, fn(comm, *args), ""))
    except BaseException as error:
        text = traceback.format_exc()
        try:
            answer = pickle.dumps((False, error, text))
            pickle.loads(answer)
        except Exception:
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"), text))
    connection.send_bytes(answer)
    connection.close()


def _die_with(parent: int) -> None:
    """Be killed when the parent is: nobody would collect the results."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _collect(started: list[tuple[BaseProcess, Connection]], grace_s: float) -> list[Any]:
    """Wait for all answers; after a failure only so long as the others need to notice it."""
    results: list[Any] = [None] * len(started)
    failures: list[tuple[int, BaseException, str]] = []
    open_ends = {connection: rank for rank, (_, connection) in enumerate(started)}
    ends: float | None = None
    while open_ends:
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            break
        for ready in wait(list(open_ends), left):
            assert isinstance(ready, Connection)
            rank = open_ends.pop(ready)
            try:
                good, value, text = pickle.loads(ready.recv_bytes())
            except (EOFError, OSError):
                process = started[rank][0]
                process.join()
                good, text = False, ""
                value = RankFailedError(f"the process of rank {rank} ended with {_exit_words(process.exitcode)}")
            if good:
                results[rank] = value
                continue
            failures.append((rank, value, text))
            ends = ends or time.monotonic() + grace_s
    if failures:
        raise _failure(failures)
    return results


def _failure(failures: list[tuple[int, BaseException, str]]) -> BaseException:
    """Return the error of the rank that failed by itself, rather than because another did."""
    consequence = [isinstance(error, RankFailedError) and bool(text) for _, error, text in failures]
    rank, error, text = failures[consequence.index(False) if False in consequence else 0]
    if isinstance(error, AcclcRuntimeError):
        error.add_note(f"raised by rank {rank}")
        return error
    told = RankFailedError(f"rank {rank} raised {type(error).__name__}: {error}")
    told.__cause__ = error
    told.add_note(text)
    return told


def _exit_words(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

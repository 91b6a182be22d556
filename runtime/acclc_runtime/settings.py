"""Environment variables that change what happens.

ACCLC_TIMEOUT and ACCLC_ENTRY_TIMEOUT (seconds), ACCLC_DEBUG (info).
"""

from __future__ import annotations

import math
import os
import sys

from acclc_runtime.errors import ArgumentError

DEFAULT_TIMEOUT_S = 60.0
"""A wait of a local group without progress ends after this; all ranks are in one process, so none is late."""

DEFAULT_ENTRY_TIMEOUT_S = 600.0
"""A communicator's call ends after this if some rank has not begun it: processes arrive at different times."""


def entry_timeout_seconds(option: float | None, timeout_s: float, origin: str) -> float:
    """Return how long a rank waits for the others to begin a call: the option, else ACCLC_ENTRY_TIMEOUT.

    Where neither is set but the bound of waits is (``origin`` is not "default"), that one; else the default.

    Raises:
        ArgumentError: not a positive number of seconds.
    """
    if option is not None:
        return _positive(option, "entry_timeout_s")
    text = os.environ.get("ACCLC_ENTRY_TIMEOUT")
    if text:
        return _positive(text, "ACCLC_ENTRY_TIMEOUT")
    return DEFAULT_ENTRY_TIMEOUT_S if origin == "default" else timeout_s


def timeout_seconds(option: float | None) -> tuple[float, str]:
    """Return the bound of waits, and where it comes from: the option, else ACCLC_TIMEOUT, else the default.

    Raises:
        ArgumentError: not a positive number of seconds.
    """
    if option is not None:
        return _positive(option, "timeout_s"), "option timeout_s"
    text = os.environ.get("ACCLC_TIMEOUT")
    if text:
        return _positive(text, "ACCLC_TIMEOUT"), "ACCLC_TIMEOUT"
    return DEFAULT_TIMEOUT_S, "default"


def _positive(value: float | str, name: str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (0 < seconds < math.inf):
        raise ArgumentError(f"{name}={value!r} is no positive number of seconds")
    return seconds


def debug_enabled() -> bool:
    """Whether ACCLC_DEBUG asks for a line on each new choice.

    Raises:
        ArgumentError: a value other than ``info`` (or empty, ``0``, ``off``).
    """
    text = os.environ.get("ACCLC_DEBUG", "").lower()
    if text in ("", "0", "off"):
        return False
    if text == "info":
        return True
    raise ArgumentError(f"ACCLC_DEBUG={text!r} is not known; it can be info")


def say(line: str) -> None:
    """Print a line for people on standard error."""
    print(f"acclc: {line}", file=sys.stderr, flush=True)


def say_once(said: set[str], line: str) -> None:
    """Print a line that is not among those ``said`` already."""
    if line not in said:
        said.add(line)
        say(line)

"""Which lines of a generated kernel perform which transfer: the statements name it in the same place always."""

from __future__ import annotations

import re

_PUT = re.compile(r"^\s*put(?:_final)?(?:<\w+>)?\(\w+, -?\d+, (\d+),")
"""``put(run, step, transfer, part, ...)``; the transfer of purely local work is -1."""
_AWAIT = re.compile(r"^\s*await\(\w+, (?:-?\d+, ){4}(\d+)\);")
"""``await(run, counter, index, lag, step, transfer)``: the line that waits for it."""


def transfer_lines(source: str) -> tuple[tuple[int, int], ...]:
    """Return (line from 1, transfer) for each line of a kernel that sends a transfer or waits for one, in order."""
    found = []
    for number, line in enumerate(source.split("\n"), 1):
        match = _PUT.match(line) or _AWAIT.match(line)
        if match:
            found.append((number, int(match[1])))
    return tuple(found)

"""Host memory that all ranks share, and their GPUs reach: who calls what, reports of failed waits, the abort word.

A call is compared on the host, without waiting for a stream: each rank writes a record of it to a ring of its own and
looks at the others'. Whoever comes later sees the difference; a thread looks again, for two that came at once.
"""

from __future__ import annotations

import mmap
import struct
import zlib

import numpy as np

from acclc_runtime.backends.cuda import REPORT
from acclc_runtime.backends.kernel_file import Report
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.tables import Tables

WINDOW = 512
"""Calls of a group that a rank may be ahead of another."""
HANDLE_BYTES = 64
WORDS_BYTES = 2048
_RECORD = struct.Struct("<9Q")
_PAGE = 4096
_LINE = 64

Key = tuple[int, int]
"""Indices of a collective and of its variant."""


class Board:
    """The ranks' common page. Offsets are computed alike by all from the manifest."""

    def __init__(self, manifest: Manifest, tables: Tables) -> None:
        self._tables = tables
        end = _LINE
        self._person_at, self._person = end, _LINE + HANDLE_BYTES + WORDS_BYTES
        end += tables.world * self._person
        self._ring_bytes = WINDOW * _RECORD.size
        self._rings_at: dict[tuple[int, ...], int] = {}
        for group in tables.groups:
            self._rings_at[group] = end
            end += len(group) * self._ring_bytes
        self._reports_at: dict[Key, tuple[int, int]] = {}
        for c, collective in enumerate(manifest.collectives):
            for v, variant in enumerate(collective.variants):
                end = -(-end // _LINE) * _LINE
                numbers = len(variant.blocks) * variant.channels
                self._reports_at[c, v] = (end, numbers)
                end += numbers * REPORT.itemsize
        self.nbytes = -(-end // _PAGE) * _PAGE

    def map(self, file: int) -> None:
        """Map the file that rank 0 made."""
        self._map = mmap.mmap(file, self.nbytes)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address = self._bytes.ctypes.data

    @property
    def aborted(self) -> bool:
        """Whether some block, or rank, gave up."""
        return bool(self._bytes[:4].view(np.uint32)[0])

    def abort(self) -> None:
        """Make the waits of all ranks end."""
        self._bytes[:4].view(np.uint32)[0] = 1

    def reports_at(self, key: Key) -> int:
        """Return where a variant's reports lie, from the begin."""
        return self._reports_at[key][0]

    def reports(self, key: Key) -> list[Report]:
        """Return what a variant's blocks said whose waits failed, of all ranks."""
        at, numbers = self._reports_at[key]
        found = self._bytes[at : at + numbers * REPORT.itemsize].view(REPORT)
        return [Report(n, *(int(r[name]) for name in Report.__slots__[1:])) for n, r in enumerate(found) if r["reason"]]

    def tell_handle(self, rank: int, handle: bytes) -> None:
        """Write the handle of a rank's slab."""
        at = self._person_at + rank * self._person + _LINE
        self._bytes[at : at + HANDLE_BYTES] = np.frombuffer(handle, np.uint8)

    def handle(self, rank: int) -> bytes:
        """Return the handle of a rank's slab."""
        at = self._person_at + rank * self._person + _LINE
        return self._bytes[at : at + HANDLE_BYTES].tobytes()

    def say(self, rank: int, words: str) -> None:
        """Tell the others why this rank gave up; only its first words count."""
        at = self._person_at + rank * self._person + _LINE + HANDLE_BYTES
        if self._bytes[at] == 0:
            data = words.encode(errors="replace")[: WORDS_BYTES - 1]
            self._bytes[at + 1 : at + len(data)] = np.frombuffer(data[1:], np.uint8)
            self._bytes[at] = data[0]

    def heard(self, rank: int) -> str:
        """Return what a rank said; "" if nothing."""
        at = self._person_at + rank * self._person + _LINE + HANDLE_BYTES
        return self._bytes[at : at + WORDS_BYTES].tobytes().partition(b"\0")[0].decode(errors="replace")

    def count(self, rank: int, number: int, value: int | None = None) -> int:
        """Return word ``number`` of a rank, or set it: 0 whether it is closing, 1 whether it has let go of slabs."""
        at = self._person_at + rank * self._person + 8 * number
        words = self._bytes[at : at + 8].view(np.uint64)
        if value is not None:
            words[0] = value
        return int(words[0])

    def publish(self, group: tuple[int, ...], rank: int, sequence: int, words: tuple[int, ...]) -> bytes:
        """Write what a rank calls; ``sequence`` counts a group's calls from 1. Return the record."""
        body = _RECORD.pack(sequence, *words, 0)[:-8]
        record = body + zlib.crc32(body).to_bytes(8, "little")
        at = self._slot(group, rank, sequence)
        self._bytes[at : at + _RECORD.size] = np.frombuffer(record, np.uint8)
        return record

    def record(self, group: tuple[int, ...], rank: int, sequence: int) -> tuple[int, ...] | None:
        """Return (sequence, words) of a rank's call; None before it is made, or while it is being written.

        A larger sequence: it is long past.
        """
        at = self._slot(group, rank, sequence)
        raw = self._bytes[at : at + _RECORD.size].tobytes()
        if zlib.crc32(raw[:-8]) != int.from_bytes(raw[-8:], "little"):
            return None
        found = _RECORD.unpack(raw)
        return None if found[0] < sequence else found[:-1]

    def _slot(self, group: tuple[int, ...], rank: int, sequence: int) -> int:
        member = group.index(rank)
        return self._rings_at[group] + member * self._ring_bytes + sequence % WINDOW * _RECORD.size

    def close(self) -> None:
        """Unmap it; the views are gone with this object."""
        del self._bytes

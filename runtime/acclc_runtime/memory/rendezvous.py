"""Ranks meet at a Unix socket of rank 0, which passes on what each has to say, with its open files.

Only processes of the same user are let in. The socket is gone when all have come.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acclc_runtime.errors import JoinError
from acclc_runtime.memory.bootstrap import Place

_LENGTH = struct.Struct("<Q")
_LARGEST = 1 << 24
_MOST_FILES = 8
_RETRY_S = 0.01
_MOST_WAITING = 128

Check = Callable[[list["Card"]], str]
"""Says what is wrong with the ranks that have come; "" if nothing is."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a rank says of itself, and the files that it gives the others."""

    rank: int
    facts: dict[str, Any]
    files: tuple[int, ...]


def meet(place: Place, facts: dict[str, Any], files: tuple[int, ...], check: Check, timeout_s: float) -> Meeting:
    """Wait for all ranks. ``check`` is run by rank 0, before anybody gets anything.

    Raises:
        JoinError: some rank did not come, came twice, or does not fit; every rank that came is told.
    """
    ends = time.monotonic() + timeout_s
    mine = Card(place.rank, {**facts, "rank": place.rank, "world": place.world}, files)
    if place.rank == 0:
        return _host(place, mine, check, ends, timeout_s)
    return _visit(place, mine, ends, timeout_s)


class Meeting:
    """All ranks' cards; the connections stay open for ``agree``, until ``close``. Files of others are ours to close."""

    def __init__(self, cards: list[Card], connections: dict[int, socket.socket], ends: float, rank: int) -> None:
        self.cards = cards
        self._connections = connections
        self._ends = ends
        self._rank = rank

    def agree(self, fault: str) -> None:
        """Tell all whether this rank is ready ("") or what went wrong.

        Raises:
            JoinError: what went wrong, at any rank; on every rank.
        """
        try:
            if self._rank == 0:
                faults = [f"rank 0: {fault}"] if fault else []
                for rank, connection in sorted(self._connections.items()):
                    said = _receive(connection, self._ends)[0].get("fault", "")
                    faults += [f"rank {rank}: {said}"] if said else []
                for connection in self._connections.values():
                    _send(connection, {"fault": "; ".join(faults)}, ())
                told = "; ".join(faults)
            else:
                host = self._connections[0]
                _send(host, {"fault": fault}, ())
                told = _receive(host, self._ends)[0]["fault"]
        except (OSError, EOFError, ValueError) as error:
            raise JoinError(f"a rank was lost while the ranks joined ({error or 'it ended'})") from None
        if told:
            raise JoinError(f"the ranks cannot join: {told}")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()


def _host(place: Place, mine: Card, check: Check, ends: float, timeout_s: float) -> Meeting:
    guests: dict[int, tuple[Card, socket.socket]] = {}
    fault = ""
    with _listening(place) as listener:
        while len(guests) + 1 < place.world and not fault:
            try:
                listener.settimeout(max(0.001, ends - time.monotonic()))
                connection = listener.accept()[0]
            except TimeoutError:
                missing = [str(r) for r in range(1, place.world) if r not in guests]
                fault = f"{_ranks(missing)} did not come to {place.words} within {timeout_s:g} s"
                break
            try:
                card = _card_of(connection, ends)
            except (OSError, EOFError, ValueError, KeyError, TypeError):
                connection.close()  # not one of us, or gone again
                continue
            if card is None:
                connection.close()
                continue
            fault = _guest_fault(place, mine, card, guests)
            guests[card.rank if not fault else -1 - len(guests)] = (card, connection)
    cards = sorted((mine, *(card for card, _ in guests.values())), key=lambda card: card.rank)
    fault = fault or check(cards)
    for _, connection in guests.values():
        with contextlib.suppress(OSError):
            _send(connection, {"fault": fault, "ranks": place.world}, ())
            if not fault:
                for card in cards:
                    _send(connection, {"rank": card.rank, "facts": card.facts}, card.files)
    meeting = Meeting(cards, {rank: connection for rank, (_, connection) in guests.items()}, ends, 0)
    if fault:
        meeting.close()
        _close_files(cards, 0)
        raise JoinError(fault)
    return meeting


def _guest_fault(place: Place, mine: Card, card: Card, guests: dict[int, tuple[Card, socket.socket]]) -> str:
    world = card.facts.get("world")
    if world != place.world:
        return f"rank {card.rank} joins {world} ranks, rank 0 joins {place.world}; the world must be the same"
    if card.rank in guests or card.rank == 0:
        first = mine if card.rank == 0 else guests[card.rank][0]
        return (
            f"two processes are rank {card.rank}: {first.facts.get('pid')} and {card.facts.get('pid')}; "
            "give each a rank of its own"
        )
    return ""


def _visit(place: Place, mine: Card, ends: float, timeout_s: float) -> Meeting:
    connection = _connect(place, ends, timeout_s)
    try:
        _send(connection, mine.facts, mine.files)
        first = _receive(connection, ends)[0]
        if first["fault"]:
            raise JoinError(first["fault"])
        cards = []
        for _ in range(int(first["ranks"])):
            body, files = _receive(connection, ends)
            if int(body["rank"]) == place.rank:
                for file in files:
                    os.close(file)
                files = mine.files
            cards.append(Card(int(body["rank"]), body["facts"], files))
    except TimeoutError:
        connection.close()
        raise JoinError(
            f"rank {place.rank} met rank 0 at {place.words}, but not all ranks came within {timeout_s:g} s"
        ) from None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        connection.close()
        raise JoinError(f"rank 0 was lost while the ranks joined at {place.words} ({error or 'it ended'})") from None
    except JoinError:
        connection.close()
        raise
    return Meeting(cards, {0: connection}, ends, place.rank)


def _close_files(cards: list[Card], own: int) -> None:
    for card in cards:
        if card.rank != own:
            for file in card.files:
                os.close(file)


class _Listener:
    """A listening socket that takes its name away when it closes."""

    def __init__(self, listener: socket.socket, path: bytes | None) -> None:
        self._listener = listener
        self._path = path

    def __enter__(self) -> socket.socket:
        return self._listener

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        self._listener.close()


def _listening(place: Place) -> _Listener:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if place.address.startswith(b"\0"):
            listener.bind(place.address)
            listener.listen(_MOST_WAITING)
            return _Listener(listener, None)
        _bind_path(listener, place.address)
        return _Listener(listener, place.address)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EEXIST):
            raise JoinError(
                f"two processes are rank 0 at {place.words}, or another job meets there; give each process a "
                "rank of its own, and each job a place"
            ) from None
        raise JoinError(f"no place to meet at {place.words}: {error.strerror or error}") from None


def _bind_path(listener: socket.socket, path: bytes) -> None:
    """Listen under another name first: at its own, a socket is either being listened to, or stale."""
    beside = path + b"." + secrets.token_hex(4).encode()
    before = os.umask(0o177)
    try:
        listener.bind(beside)
    finally:
        os.umask(before)
    try:
        listener.listen(_MOST_WAITING)
        try:
            os.link(beside, path)
        except FileExistsError:
            if not _is_stale(path):
                raise
            os.unlink(path)
            os.link(beside, path)
    finally:
        os.unlink(beside)


def _is_stale(path: bytes) -> bool:
    """Whether nobody listens at a socket that is there: its process was killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _connect(place: Place, ends: float, timeout_s: float) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(place.address)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            connection.close()
            if time.monotonic() >= ends:
                raise JoinError(f"rank {place.rank} found no rank 0 at {place.words} within {timeout_s:g} s") from None
            time.sleep(_RETRY_S)
            continue
        except OSError as error:
            connection.close()
            raise JoinError(f"rank {place.rank} cannot meet at {place.words}: {error.strerror or error}") from None
        if not _same_user(connection):
            connection.close()
            raise JoinError(f"another user's process is at {place.words}; use another place")
        return connection


def _same_user(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", raw)[1] == os.geteuid())


def _card_of(connection: socket.socket, ends: float) -> Card | None:
    if not _same_user(connection):
        return None
    facts, files = _receive(connection, min(ends, time.monotonic() + 10))
    return Card(int(facts["rank"]), facts, files)


def _send(connection: socket.socket, body: dict[str, Any], files: tuple[int, ...]) -> None:
    data = json.dumps(body).encode()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    connection.sendmsg([_LENGTH.pack(len(data))], ancillary)
    connection.sendall(data)


def _receive(connection: socket.socket, ends: float) -> tuple[dict[str, Any], tuple[int, ...]]:
    connection.settimeout(max(0.001, ends - time.monotonic()))
    files = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(_LENGTH.size, socket.CMSG_LEN(_MOST_FILES * files.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    head += _exactly(connection, _LENGTH.size - len(head))
    (length,) = _LENGTH.unpack(head)
    if length > _LARGEST:
        raise ValueError("a message that no rank sends")
    body = json.loads(_exactly(connection, length))
    for file in files:
        os.set_inheritable(file, False)
    return body, tuple(files)


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length > 0:
        part = connection.recv(min(length, 1 << 16))
        if not part:
            raise EOFError("it ended")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _ranks(ranks: list[str]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(ranks)}"

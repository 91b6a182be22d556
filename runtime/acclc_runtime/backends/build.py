"""Compiles C++ at first use, and keeps the result by the hash of everything it depends on.

The cache is ``$ACCLC_CACHE_DIR``, else ``$XDG_CACHE_HOME/acclc``, else ``~/.cache/acclc``: a folder that only its
owner can use, because code is loaded from it. Concurrent builds of one thing are safe: each compiles beside, then
renames.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from acclc_runtime.errors import BackendUnavailableError, BuildError

_CANDIDATES = ("g++", "clang++", "c++")
_TIME_LIMIT_S = 600
_BASE_FLAGS = ("-O3", "-fPIC", "-shared", "-pthread", "-ffp-contract=off")
_NATIVE_FLAG = "-march=native"
_LAYOUT = "1"
"""Of the cache: another number makes every earlier build forgotten."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: how it is called, and the first line of its version."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """Return the compiler: ``$CXX`` where it is set, else the first of g++, clang++, c++ on PATH.

    Raises:
        BackendUnavailableError: none is there, or ``$CXX`` does not run.
    """
    return _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find_compiler(chosen: str, path: str) -> Compiler:
    commands = [tuple(shlex.split(chosen))] if chosen.strip() else [(name,) for name in _CANDIDATES]
    for command in commands:
        found = shutil.which(command[0], path=path or None)
        if found is None:
            continue
        version = _version((found, *command[1:]))
        if version is not None:
            return Compiler((found, *command[1:]), version)
    if chosen.strip():
        raise BackendUnavailableError(f"CXX={chosen!r} cannot be run; set it to a C++ compiler, or unset it")
    raise BackendUnavailableError(
        f"no C++ compiler found ({', '.join(_CANDIDATES)}); install one (Debian: apt-get install g++) or set CXX"
    )


def _version(command: tuple[str, ...]) -> str | None:
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.splitlines()[0] if answer.returncode == 0 and answer.stdout else None


def cache_folder() -> Path:
    """Return the cache's folder, made if need be.

    Raises:
        BackendUnavailableError: it cannot be made, or others could write to it.
    """
    chosen = os.environ.get("ACCLC_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(chosen) if chosen else Path(base) / "acclc"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise BackendUnavailableError(
            f"no folder for compiled kernels: {folder}: {error.strerror}; set ACCLC_CACHE_DIR to a writable folder"
        ) from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise BackendUnavailableError(
            f"{folder} belongs to another user or others may write to it, so no code is loaded from it; "
            f"chmod 700 it, or set ACCLC_CACHE_DIR to a folder of your own"
        )
    return folder


@lru_cache(maxsize=1)
def _machine() -> str:
    """What ``-march=native`` depends on: a cache in a shared home serves several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    told = [line for line in lines if line.split(":")[0].strip() in ("model name", "flags", "Features", "CPU part")]
    return "\n".join([platform.machine(), *dict.fromkeys(told)])


def build_library(source: Path, text: bytes, flags: tuple[str, ...], *, fresh: bool = False) -> Path:
    """Return the shared library of a C++ source, compiled for this machine unless the cache has it.

    ``text`` is what is compiled, with no includes but the system's; ``source`` names it in messages. ``fresh``
    compiles in any case.

    Raises:
        BackendUnavailableError: no compiler, or no folder to keep the result.
        BuildError: the compiler failed.
    """
    compiler = find_compiler()
    folder = cache_folder()
    arguments = (*_BASE_FLAGS, *flags)
    parts = (_LAYOUT, _machine(), *compiler.command, compiler.version, *arguments)
    digest = hashlib.sha256("\0".join(parts).encode() + b"\0" + text).hexdigest()
    library = folder / f"{digest}.so"
    if library.is_file() and not fresh:
        return library
    with _one_at_a_time(folder, digest):
        if not library.is_file() or fresh:
            _build(source, text, compiler, arguments, library)
    return library


def _build(source: Path, text: bytes, compiler: Compiler, arguments: tuple[str, ...], library: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as beside:
        copy = Path(beside) / f"{source.stem}.cpp"
        copy.write_bytes(text)
        result = Path(beside) / "library.so"
        _compile(compiler, arguments, source, copy, result)
        result.chmod(0o700)
        result.replace(library)


@contextmanager
def _one_at_a_time(folder: Path, digest: str) -> Iterator[None]:
    """Let one process build a thing while others wait for it: the ranks of a group all need it at once.

    A byte of a file is locked for each digest. Where locks do not work (some network disks) all build.
    """
    with (folder / "builds.lock").open("w") as lock:
        where = int(digest[:15], 16)
        with suppress(OSError):
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, where)
        yield


def _compile(compiler: Compiler, arguments: tuple[str, ...], source: Path, copy: Path, result: Path) -> None:
    """Compile for this very processor; where the compiler cannot, for any of its family."""
    log = ""
    for extra in ((_NATIVE_FLAG,), ()):
        command = [*compiler.command, *extra, *arguments, "-x", "c++", str(copy), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise BuildError(f"{source}: {compiler.version} did not end within {_TIME_LIMIT_S} s") from None
        except OSError as error:
            raise BuildError(f"{source}: {compiler.command[0]}: {error.strerror}") from None
        if done.returncode == 0:
            return
        log = done.stderr or done.stdout
    shown = shlex.join([*compiler.command, *arguments, "-x", "c++", str(source), "-o", os.devnull])
    raise BuildError(f"{source} does not compile with {compiler.version}\n{_shortened(log)}\nTo repeat it:\n  {shown}")


def _shortened(log: str, lines: int = 40) -> str:
    every = log.rstrip().splitlines()
    if len(every) <= lines:
        return "\n".join(every)
    return "\n".join([*every[:lines], f"... {len(every) - lines} more lines"])

"""Importers: what every file means, and how long its import and the language's own check of it take.

    python benchmarks/importers.py [--quick] [--json FILE] [--fuzz N] [--language N] [--seed N]

The files are the project's fixtures, and those of the folder that ACCLC_EXTRA_INPUTS names. Seconds are of the import
and its text, by the wall clock on one core, the best of three; `checked` is the language's analysis of the text beside
it. `--fuzz N` mutates the files N times instead, `--language N` the texts of the language: it stops at the first
traceback and at an input that takes over 5 s, and tells the slowest.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from acclc.diagnostics import DiagnosticError
from acclc.importers import import_machine, source_of, text_of
from acclc.sema import analyse_text

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS / "unit" / "importers"))
from fuzzing import LANGUAGE_PIECES, PIECES, check, check_language, mutated  # noqa: E402
from importer_tools import meaning  # noqa: E402

FUZZED_BYTES = 9_000
"""Larger files are not mutated: the small ones have all there is in the formats."""
HANGS_AFTER = 5
"""Seconds of the processor; the bar of one mutated input."""


@dataclass(frozen=True)
class Row:
    case: str
    verified: bool
    """The text analyses, or the file is refused with a diagnostic."""
    seconds: float
    checked: float
    meaning: str


def files() -> list[Path]:
    """The fixtures, and the extra inputs."""
    folders = [TESTS / "fixtures" / "importers", *map(Path, filter(None, [os.environ.get("ACCLC_EXTRA_INPUTS")]))]
    return [
        p for f in folders for p in sorted(f.iterdir()) if p.is_file() and p.name not in ("INDEX.md", "EXPECTED.json")
    ]


def measure(path: Path, times: int) -> Row:
    """Import a file some times; the best counts."""
    data, best, checked, verified = path.read_bytes(), float("inf"), 0.0, True
    for _ in range(times):
        started = time.perf_counter()
        text = None
        try:
            text = text_of(import_machine(source_of(data, path.name)), "machine", path.name)
        except DiagnosticError as error:
            verified = bool(error.diagnostics)
        best = min(best, time.perf_counter() - started)
        if text is not None:
            started = time.perf_counter()
            verified = bool(analyse_text(text, "machine.accl").topologies)
            checked = time.perf_counter() - started
    return Row(path.name, verified, round(best, 4), round(checked, 4), meaning(path))


def fuzz_importers(count: int, first: int) -> dict[str, object]:
    """Mutate files of other tools."""
    data = [p.read_bytes() for p in files() if p.stat().st_size <= FUZZED_BYTES]
    return fuzz(count, first, data, PIECES, lambda made, seed: check(made, whole=seed % 8 == 0))


def fuzz_language(count: int, first: int) -> dict[str, object]:
    """Mutate texts of the language: the examples and the library."""
    folders = (TESTS.parent / "examples", TESTS.parent / "acclc" / "library")
    data = [p.read_bytes() for folder in folders for p in sorted(folder.glob("*.accl"))]
    return fuzz(count, first, data, LANGUAGE_PIECES, lambda made, _: check_language(made))


def fuzz(
    count: int, first: int, data: Sequence[bytes], pieces: tuple[str, ...], check_one: Callable[[bytes, int], str]
) -> dict[str, object]:
    """Mutate the files; any exception but a diagnostic, and any input that takes long, ends it with the seed."""
    ends: Counter[str] = Counter()
    slowest, started = (0.0, first), time.perf_counter()
    for seed in range(first, first + count):
        made = mutated(data[seed % len(data)], data[(seed * 7 + 3) % len(data)], seed, pieces)
        before = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, HANGS_AFTER)
        try:
            ends[check_one(made, seed)] += 1
        except BaseException:
            print(f"seed {seed}: {made!r}")
            raise
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, (time.process_time() - before, seed))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "inputs": count,
        "first_seed": first,
        "seconds": round(time.perf_counter() - started, 1),
        "slowest_seconds": round(slowest[0], 3),
        "slowest_seed": slowest[1],
        "memory_MiB": memory,
        "ends": dict(sorted(ends.items())),
    }


def _hang(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"one input took more than {HANGS_AFTER} s")


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    width = max(len(r.case) for r in rows)
    print(f"{'case':{width}}  verified  seconds  checked  meaning")
    for r in rows:
        text = r.meaning if len(r.meaning) <= 100 else r.meaning[:97] + "..."
        print(f"{r.case:{width}}  {'yes' if r.verified else 'NO':8}  {r.seconds:7.3f}  {r.checked:7.3f}  {text}")
    print(f"\n{len(rows)} files; the slowest import took {max(r.seconds for r in rows):.3f} s")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of each file")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--language", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fuzz or options.language:
        signal.signal(signal.SIGPROF, _hang)
        found = []
        if options.fuzz:
            found.append({"case": "mutated files", "verified": True, **fuzz_importers(options.fuzz, options.seed)})
        if options.language:
            found.append({"case": "mutated texts", "verified": True, **fuzz_language(options.language, options.seed)})
        print(json.dumps(found, indent=1))
        result: object = found
    else:
        rows = [measure(p, 1 if options.quick else 3) for p in files()]
        show(rows)
        result = [asdict(r) for r in rows]
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        Path(options.json).write_text(json.dumps({**machine, "rows": result}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

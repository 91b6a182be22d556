"""Tables for people: the summary of a compilation, forecasts and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from acclc.artefact import Artefact, CompiledCollective
from acclc.forecast import Forecast
from acclc.summary import algbw_GBps, gap, gap_words, latency_us, range_words, size_words

if TYPE_CHECKING:
    from acclc_runtime.run import RunRow


def _print(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print a table; the first ``left`` columns are words, the others figures."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def _console() -> Console:
    """A console as wide as the terminal; into a pipe or file lines are as long as they are."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 400
    return console


def print_summary(artefact: Artefact, folder: str, seconds: float) -> None:
    """Print what was found, for a person to take in within seconds."""
    console = _console()
    for compiled in artefact.collectives:
        _print_collective(console, compiled)
    marks = "" if artefact.reproducible else " (not reproducible: cut by the clock or several workers)"
    console.print(f"verified, written to {folder} in {seconds:.1f} s{marks}", soft_wrap=True)


def _print_collective(console: Console, compiled: CompiledCollective) -> None:
    problem, bound = compiled.problem, compiled.proof.bound
    rate = algbw_GBps(problem, bound.throughput.time_per_byte)
    rows = []
    for variant in compiled.variants:
        schedule = variant.schedule
        rows.append(
            (
                variant.id,
                schedule.strategy,
                str(schedule.chunks_per_shard),
                str(schedule.steps),
                "-" if schedule.pipelined else str(schedule.total_rounds),
                f"{algbw_GBps(problem, variant.time_per_byte):.2f}",
                gap_words(gap(problem, bound, variant)),
                f"{latency_us(problem, variant):.2f}",
                range_words(variant),
            )
        )
    columns = ("variant", "strategy", "chunks", "steps", "rounds", "GB/s", "gap", "latency us", "best for")
    title = f"{compiled.name}: {problem.collective.value} on {problem.topology.name}, {len(problem.group)} ranks"
    _print(f"{title}, {compiled.proof.status.value}", columns, rows, left=2)
    rounds = "" if bound.rounds_per_chunk is None else f"{bound.rounds_per_chunk} rounds a chunk, "
    console.print(f"  bound {rounds}{rate:.2f} GB/s: {bound.throughput.words}", soft_wrap=True)
    if not compiled.proof.complete:
        console.print("  the search was cut short: better schedules may exist", soft_wrap=True)
    console.print()


def print_forecast(rows: Iterable[Forecast]) -> None:
    """Print simulated times."""
    _print(
        "",
        ("collective", "variant", "size", "time us", "GB/s", "x bound", "limited by"),
        [
            (
                r.collective,
                r.variant,
                size_words(r.size),
                f"{float(r.seconds * 10**6):.2f}",
                f"{float(r.size / r.seconds / 10**9):.2f}" if r.seconds else "-",
                f"{float(r.seconds / r.bound_seconds):.2f}" if r.bound_seconds else "-",
                r.limiting,
            )
            for r in rows
        ],
        left=2,
    )


def print_runs(rows: Iterable[RunRow]) -> None:
    """Print what ran, and whether it was right. A failed row shows no rate."""
    _print(
        "",
        ("collective", "variant", "type", "op", "size", "in place", "time us", "GB/s", "result"),
        [
            (
                r.collective,
                r.variant,
                r.dtype,
                r.op or "-",
                size_words(r.bytes),
                "yes" if r.in_place else "no",
                f"{r.seconds * 1e6:.1f}" if r.ok else "-",
                f"{r.algbw_GBps:.3f}" if r.ok else "-",
                "ok" if r.ok else (r.error or f"{r.wrong} wrong"),
            )
            for r in rows
        ],
        left=4,
    )

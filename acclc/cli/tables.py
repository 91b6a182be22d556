"""Tables for people: the summary of a compilation, forecasts and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from acclc.artefact import Artefact, CompiledCollective, Variant
from acclc.forecast import Forecast
from acclc.packings import packing_words
from acclc.simulate.sizes import size_words
from acclc.summary import algbw_GBps, best_GBps, gap, gap_words, goal_words, latency_us, range_words, rounds_words

if TYPE_CHECKING:
    from acclc.repair import Repair, Repaired
    from acclc_runtime.run import RunRow


WORDS = frozenset({"limited by", "result"})
"""Columns of words, which take several lines where the terminal is narrow, of this many characters at least."""
LEAST_WIDTH = 30
UNBOUNDED = 10_000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print a table; the first ``left`` columns are words, the others figures, and words again in ``WORDS``.

    Nothing is ever cut off: what a terminal is too narrow for goes on in the next line.
    """
    cells = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, column in enumerate(columns):
        words = column in WORDS
        justify: JustifyMethod = "left" if words or number < left else "right"
        least = LEAST_WIDTH if words else max(map(cell_len, (column, *(row[number] for row in cells))))
        table.add_column(column, justify=justify, no_wrap=not words, min_width=least)
    for row in cells:
        table.add_row(*map(escape, row))
    console = _console()
    needed = console.measure(table, options=console.options.update_width(UNBOUNDED)).minimum
    console.width = max(console.width, needed)
    with console.capture() as capture:
        console.print(table)
    lines = (line.rstrip() for line in capture.get().splitlines())
    click.echo("\n".join(line for line in lines if line))


def _console() -> Console:
    """A console as wide as the terminal; into a pipe or file lines are as long as they are."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 400
    return console


def print_summary(artefact: Artefact, folder: str, seconds: float) -> None:
    """Print what was found, for a person to take in within seconds."""
    print_collectives(artefact)
    if len(artefact.collectives) > 1:
        _print_digest(artefact.collectives)
    marks = "" if artefact.reproducible else " (not reproducible: cut by the clock, interrupted, or several workers)"
    click.echo(f"verified, written to {folder} in {seconds:.1f} s{marks}")


def print_collectives(artefact: Artefact) -> None:
    """Print the variants of each collective, with bounds, packings and notes."""
    for compiled in artefact.collectives:
        _print_collective(compiled)


def _print_collective(compiled: CompiledCollective) -> None:
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
    click.secho(f"{title}; {goal_words(problem.goal)}: {compiled.proof.status.value}", bold=True)
    print_table(columns, rows, left=2)
    click.echo()
    click.echo(f"  bound {rounds_words(bound)}{rate:.2f} GB/s: {bound.throughput.words}")
    for note in (*packing_words(compiled), *compiled.proof.notes):
        click.echo(f"  {note}")
    if not compiled.proof.complete:
        click.echo("  not proven to be the best: better schedules may exist")
    click.echo()


def _print_digest(collectives: Sequence[CompiledCollective]) -> None:
    """Print a line a collective: of many, the tables above are out of sight."""
    rows = []
    for compiled in collectives:
        problem, bound = compiled.problem, compiled.proof.bound
        gaps = [gap(problem, bound, v) for v in compiled.variants]
        rows.append(
            (
                compiled.name,
                f"{best_GBps(compiled):.2f}",
                f"{algbw_GBps(problem, bound.throughput.time_per_byte):.2f}",
                gap_words(min((g for g in gaps if g is not None), default=None)),
                f"{min(latency_us(problem, v) for v in compiled.variants):.2f}",
                f"{float(bound.latency.seconds * 10**6):.2f}",
                compiled.proof.status.value,
            )
        )
    print_table(("in sum", "GB/s", "bound", "gap", "latency us", "bound us", "status"), rows)
    click.echo()


def schedule_title(compiled: CompiledCollective, variant: Variant) -> str:
    """A variant in one line: what it is for, its size, and how good it is."""
    problem, schedule = compiled.problem, variant.schedule
    steps = f"{schedule.steps} levels, pipelined" if schedule.pipelined else f"{schedule.steps} steps"
    rate = algbw_GBps(problem, variant.time_per_byte)
    return (
        f"{compiled.name}/{variant.id}: {problem.collective.value} on {problem.topology.name}, "
        f"{len(problem.group)} ranks; {steps}; {rate:.2f} GB/s, "
        f"{gap_words(gap(problem, compiled.proof.bound, variant))}; best for: {range_words(variant)}"
    )


def print_repair(repair: Repair, folder: str, seconds: float) -> None:
    """Print what became of each variant, what there is now, and old, new and bound beside each other."""
    print_collectives(repair.artefact)
    for repaired in repair.collectives:
        click.secho(f"{repaired.before.name}: {_repair_words(repaired)}", bold=True)
        if repaired.touched:
            _print_fates(repaired)
    print_table(
        ("collective", "GB/s before", "GB/s now", "bound before", "bound now", "gap", "seconds"),
        [
            (
                r.after.name,
                f"{best_GBps(r.before):.2f}",
                f"{best_GBps(r.after):.2f}",
                f"{_bound_GBps(r.before):.2f}",
                f"{_bound_GBps(r.after):.2f}",
                gap_words(min(gap(r.after.problem, r.after.proof.bound, v) or Fraction(0) for v in r.after.schedules)),
                f"{r.seconds:.1f}",
            )
            for r in repair.collectives
        ],
    )
    click.echo()
    click.echo(f"verified, written to {folder} in {seconds:.1f} s")


def _bound_GBps(compiled: CompiledCollective) -> float:  # noqa: N802  GBps is the unit
    return algbw_GBps(compiled.problem, compiled.proof.bound.throughput.time_per_byte)


def _repair_words(repaired: Repaired) -> str:
    if not repaired.touched:
        return "its machine has none of these links: nothing changed"
    if not repaired.searched:
        return "every schedule holds as it was"
    kept = f"kept {', '.join(repaired.kept)}" if repaired.kept else "nothing was kept"
    made = [v.id for v in repaired.after.schedules if v.id not in repaired.kept]
    return f"{kept}; made anew {', '.join(made)}" if made else kept


def _print_fates(repaired: Repaired) -> None:
    """What became of the variants that were there."""
    for fate in repaired.fates:
        if fate.word == "lost":
            words = f"lost: it used {', '.join(fate.lost)}" if fate.lost else "lost: it does not verify here"
        elif fate.word == "kept":
            words = "holds as it was" + ("" if fate.stays else ", and is beaten")
        else:
            assert fate.now is not None
            now = algbw_GBps(repaired.before.problem, fate.now)
            words = f"holds at {now:.2f} of {algbw_GBps(repaired.before.problem, fate.before):.2f} GB/s"
            words += "" if fate.stays else ", which is beaten"
        click.echo(f"  {fate.id}: {words}")
    if repaired.same_kernels:
        click.echo(f"  the kernels of {', '.join(repaired.same_kernels)} are the same to the byte")


def print_forecast(rows: Iterable[Forecast]) -> None:
    """Print simulated times."""
    print_table(
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
    print_table(
        ("collective", "variant", "type", "op", "chosen by", "size", "in place", "time us", "GB/s", "result"),
        [
            (
                r.collective,
                r.variant,
                r.dtype,
                r.op or "-",
                r.chosen,
                f"{size_words(r.bytes)} {r.counts}".rstrip(),
                "yes" if r.in_place else "no",
                f"{r.seconds * 1e6:.1f}" if r.ok else "-",
                f"{r.algbw_GBps:.3f}" if r.ok else "-",
                "ok" if r.ok else (r.error or f"{r.wrong} wrong"),
            )
            for r in rows
        ],
        left=5,
    )

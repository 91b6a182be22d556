"""``acclc tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from acclc.cli.common import artefact_argument, json_option, print_json
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from acclc_runtime.measure import Times
    from acclc_runtime.tuning import Tuning


@click.command("tune")
@artefact_argument
@click.option(
    "--transport",
    type=click.Choice(["memory", "cpu", "cuda"]),
    default="memory",
    show_default=True,
    help="memory: a process a rank; cpu, cuda: all ranks in one process.",
)
@click.option("--min", "smallest", type=SIZE, default="8", show_default=True, help="S in bytes.")
@click.option("--max", "largest", type=SIZE, default="64MiB", show_default=True, help="S in bytes.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option("--only", metavar="NAME", help="One collective of the artefact.")
@click.option("--dry-run", is_flag=True, help="Measure and print, and leave the artefact as it is.")
@json_option
def command(
    artefact: Path,
    transport: str,
    smallest: int,
    largest: int,
    rounds: int,
    only: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Measure the variants of ARTEFACT on this machine, and choose by the figures from now on.

    Writes tuning.json into the artefact; calls on that transport take the variant that was the fastest for their size.
    Delete the file to go back to the ranges by simulation.
    """
    from acclc_runtime.measure import default_sizes, measure, tuned
    from acclc_runtime.tuning import write_tuning

    if largest < smallest:
        raise click.BadParameter(f"{largest} is less than --min {smallest}", param_hint="--max")

    def tell(words: str) -> None:
        click.echo(words, err=True)

    sizes = default_sizes(smallest, largest)
    times = measure(artefact, transport, sizes, rounds, only, None if as_json else tell)
    tuning = tuned(transport, times)
    if not dry_run:
        write_tuning(artefact, tuning)
    if as_json:
        print_json(_to_dict(artefact, times, tuning, written=not dry_run))
        return OK
    for line in _table(times, tuning):
        click.echo(line)
    click.echo(f"{artefact / 'tuning.json'} {'is not written' if dry_run else 'says so from now on'}")
    return OK


def _table(times: Times, tuning: Tuning) -> list[str]:
    from acclc_runtime.selection import format_bytes

    lines = []
    for collective in tuning.collectives:
        lines.append(f"{collective.name} (microseconds)")
        for (name, size), by_variant in times.items():
            if name != collective.name:
                continue
            best = min(by_variant, key=by_variant.__getitem__)
            figures = ", ".join(f"{'*' if v == best else ''}{v} {t * 1e6:.1f}" for v, t in by_variant.items())
            lines.append(f"  {format_bytes(size):>9}  {figures}")
        lines += [f"  from {format_bytes(r.min_bytes)} on: {r.variant}" for r in collective.ranges]
    return lines


def _to_dict(artefact: Path, times: Times, tuning: Tuning, written: bool) -> dict[str, Any]:
    return {
        "artefact": str(artefact),
        "transport": tuning.transport,
        "machine": tuning.machine,
        "written": written,
        "collectives": [
            {
                "name": c.name,
                "ranges": [{"min_bytes": r.min_bytes, "variant": r.variant} for r in c.ranges],
                "measured": [
                    {"bytes": size, "seconds": by_variant}
                    for (name, size), by_variant in times.items()
                    if name == c.name
                ],
            }
            for c in tuning.collectives
        ],
    }

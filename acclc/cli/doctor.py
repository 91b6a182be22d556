"""``acclc doctor``."""

from __future__ import annotations

import click

from acclc.cli.common import json_option, print_json
from acclc.cli.failures import FAULT, OK

_COLOURS = {"ok": "green", "warning": "yellow", "broken": "red"}


@click.command("doctor")
@click.option(
    "--need",
    multiple=True,
    type=click.Choice(["mpi", "cuda"]),
    help="What must work beside compiling and the CPU backend; what is broken of others is a warning.",
)
@json_option
def command(need: tuple[str, ...], as_json: bool) -> int:
    """Check what acclc needs of this machine, by using it: each line is ok, warning or broken, and says what to do."""
    from acclc.machines.doctor import State, Surroundings, examine

    checks = examine(Surroundings(), need)
    broken = sum(c.state is State.BROKEN for c in checks)
    if as_json:
        print_json({"ok": not broken, "checks": [c.to_dict() for c in checks]})
        return FAULT if broken else OK
    width = max(len(c.what) for c in checks)
    for c in checks:
        click.echo(
            f"{click.style(f'{c.state.value:7}', fg=_COLOURS[c.state.value])}  {c.what:{width}}  {c.detail}".rstrip()
        )
        if c.state is not State.OK and c.help:
            click.echo(f"{'':7}  {'':{width}}  -> {c.help}")
    warnings = sum(c.state is State.WARNING for c in checks)
    click.echo(f"{len(checks)} checks, {broken} broken, {warnings} warnings")
    return FAULT if broken else OK

"""``acclc topo``."""

from __future__ import annotations

import click

from acclc.cli.failures import OK


@click.group("topo")
def command() -> None:
    """List the built-in topologies, or show one."""


@command.command("list")
def list_() -> int:
    """List the built-in topologies with the first line of what they say of themselves."""
    from acclc.library import names, source

    for name in names():
        first = source(name).line(1).removeprefix("#").strip()
        click.echo(f"{name:12} {first}")
    return OK


@command.command("show")
@click.argument("topology")
def show(topology: str) -> int:
    """Show a built-in TOPOLOGY, such as dgx1 or "torus(4, 4)": nodes, links, what its text says."""
    from acclc.ir.text import topology_text
    from acclc.sema import topology_named

    click.echo(topology_text(topology_named(topology)), nl=False)
    return OK

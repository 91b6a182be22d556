"""``acclc explain``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.failures import OK


@click.command("explain")
@click.argument("code", metavar="[CODE | ARTEFACT]", required=False)
def command(code: str | None) -> int:
    """Explain a diagnostic's CODE (the word in brackets of an error), or an ARTEFACT; or list all codes."""
    from acclc.diagnostics import CATALOGUE, explain, suggest

    if code is None:
        for entry in CATALOGUE.values():
            click.echo(f"{entry.code:28} {entry.title}")
        return OK
    if (Path(code) / "manifest.json").is_file():
        from acclc.artefact import load_artefact
        from acclc.cli.tables import print_collectives

        print_collectives(load_artefact(code))
        return OK
    name = code.strip().removeprefix("error[").removeprefix("warning[").rstrip("]")
    if name not in CATALOGUE:
        near = suggest(name, CATALOGUE)
        raise click.UsageError(f"no diagnostic {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    click.echo(explain(CATALOGUE[name]))
    return OK

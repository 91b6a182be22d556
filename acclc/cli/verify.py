"""``acclc verify``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import artefact_argument, json_option, print_json
from acclc.cli.failures import FAULT, OK


@click.command("verify")
@artefact_argument
@json_option
def command(artefact: Path, as_json: bool) -> int:
    """Check ARTEFACT again from its files alone: problem, proof, schedules, programs, kernels, manifest."""
    from acclc.audit import audit

    rows = audit(artefact)
    ok = all(row.ok for row in rows)
    if as_json:
        print_json({"artefact": str(artefact), "verified": ok, "checks": [row.to_dict() for row in rows]})
        return OK if ok else FAULT
    for row in rows:
        click.echo(f"{'ok  ' if row.ok else 'FAIL'} {row.what}" + (f": {row.figure}" if row.figure else ""))
        for finding in row.findings:
            click.echo(f"       {finding}", err=True)
    click.echo("verified" if ok else "NOT verified")
    return OK if ok else FAULT

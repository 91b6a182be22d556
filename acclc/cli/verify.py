"""``acclc verify``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import artefact_argument, json_option, print_json
from acclc.cli.failures import FAULT, OK


@click.command("verify")
@artefact_argument
@click.option(
    "--target",
    type=click.Choice(["executor", "rccl", "msccl"]),
    help="An algorithm of MSCCL: the engine that has to take it (else what engines refuse is a warning).",
)
@json_option
def command(artefact: Path, target: str | None, as_json: bool) -> int:
    """Check ARTEFACT again from its files alone: problem, proof, schedules, programs, kernels, manifest.

    Or a file of another engine: an algorithm of MSCCL (XML) or an execution plan of MSCCL++ (JSON).
    """
    from acclc.foreign import audit_file, is_foreign

    if is_foreign(artefact):
        rows = audit_file(artefact, target)
    elif target is not None:
        raise click.UsageError("--target is for an algorithm of MSCCL, a file")
    else:
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

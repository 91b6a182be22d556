"""``acclc check``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import file_argument, json_option, machine_options, parse_settings, print_json
from acclc.cli.failures import FAULT, OK


@click.command("check")
@file_argument
@machine_options
@json_option
def command(
    file: Path, settings: tuple[str, ...], without: tuple[str, ...], degrade: tuple[str, ...], as_json: bool
) -> int:
    """Report every error and warning of FILE."""
    from acclc.diagnostics import DiagnosticError, render
    from acclc.driver import Options, analyse
    from acclc.syntax import read_source

    try:
        analysis = analyse(read_source(file), Options(parse_settings(settings), tuple(without), tuple(degrade)))
    except DiagnosticError as error:
        if not as_json:
            raise
        print_json({"file": str(file), "ok": False, "diagnostics": [d.to_dict() for d in error.diagnostics]})
        return FAULT
    warnings = analysis.warnings
    if as_json:
        print_json({"file": str(file), "ok": True, "diagnostics": [d.to_dict() for d in warnings]})
        return OK
    if warnings:
        click.echo(render(warnings), err=True, nl=False)
    for problem in analysis.problems:
        click.echo(f"{problem.name}: {problem.collective.value} on {problem.topology.name}, {len(problem.group)} ranks")
    return OK

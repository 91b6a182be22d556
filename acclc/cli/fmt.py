"""``acclc fmt``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import file_argument, write_text
from acclc.cli.failures import FAULT, OK


@click.command("fmt")
@file_argument
@click.option("--write", "-w", is_flag=True, help="Rewrite FILE instead of printing.")
@click.option("--check", is_flag=True, help="Only say, by the exit code, whether FILE is in canonical form.")
def command(file: Path, write: bool, check: bool) -> int:
    """Print FILE in canonical form; comments are kept."""
    from acclc.syntax import format_file, read_source

    source = read_source(file)
    text, formatted = source.text, format_file(source)
    if check:
        if text != formatted:
            click.echo(f"{file} is not in canonical form; `acclc fmt --write {file}` rewrites it", err=True)
            return FAULT
        return OK
    if not write:
        click.echo(formatted, nl=False)
    elif text != formatted:
        write_text(file, formatted)
    return OK

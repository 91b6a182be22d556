"""``acclc bound``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from acclc.cli.common import file_argument, json_option, machine_options, parse_settings, print_json
from acclc.cli.failures import OK
from acclc.cli.progress import ProgressLine


@click.command("bound")
@file_argument
@machine_options
@json_option
def command(
    file: Path, settings: tuple[str, ...], without: tuple[str, ...], degrade: tuple[str, ...], as_json: bool
) -> int:
    """Print the lower bounds of each collective of FILE, what proves them, and how far ring and tree are from them."""
    from acclc.driver import Options, headroom
    from acclc.summary import headroom_json, headroom_words

    with ProgressLine(sys.stderr) as line:
        results = list(headroom(file, Options(parse_settings(settings), tuple(without), tuple(degrade)), observer=line))
    if as_json:
        print_json({"collectives": [headroom_json(h) for h in results]})
        return OK
    if not results:
        click.echo(f"{file} declares no collective, so there is nothing to bound", err=True)
        return OK
    click.echo("\n\n".join(map(headroom_words, results)))
    return OK

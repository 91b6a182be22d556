"""``acclc compile``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acclc.cli.common import (
    file_argument,
    json_option,
    machine_options,
    make_options,
    print_json,
    search_options,
    select,
    write_text,
)
from acclc.cli.failures import NO_SCHEDULE, OK
from acclc.cli.sizes import PAGE_SIZES

if TYPE_CHECKING:
    from acclc.artefact import Artefact
    from acclc.driver import NoScheduleError


@click.command("compile")
@file_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="The artefact's folder [build/FILE]."
)
@machine_options
@search_options
@click.option(
    "--emit",
    type=click.Choice(["problem", "bound", "schedule", "program", "kernel", "source"]),
    help="Print one level of the compiler instead of writing an artefact.",
)
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE", help="Write the page of `acclc show` too.")
@click.option("--force", is_flag=True, help="Replace an artefact that is there.")
@json_option
def command(
    file: Path,
    output: Path | None,
    settings: tuple[str, ...],
    without: tuple[str, ...],
    degrade: tuple[str, ...],
    time_limit: float | None,
    seed: int,
    workers: int,
    emit: str | None,
    page: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Compile FILE: find schedules, prove them, generate kernels, and write an artefact that Python can import."""
    from acclc.artefact import OutputError, check_output
    from acclc.cli.progress import ProgressLine
    from acclc.driver import NoScheduleError, compile_file, emit_levels
    from acclc.summary import artefact_json

    if emit is not None and (as_json or output is not None or page is not None):
        raise click.UsageError(
            "--emit prints a level as text and writes no file: it goes without --json, -o and --page"
        )
    started = time.perf_counter()
    options = make_options(settings, without, degrade, time_limit, seed, workers)
    target = output if output is not None else Path("build") / file.stem
    artefact: Artefact
    with ProgressLine(sys.stderr) as line:
        try:
            if emit is not None:
                for text in emit_levels(file, emit, options, line):
                    click.echo(text, nl=False)
                return OK
            check_output(target, force=force)
            artefact = compile_file(file, options, line)
        except NoScheduleError as failure:
            return _no_schedule(failure, target.name, time.perf_counter() - started, as_json)
    if not artefact.collectives:
        raise OutputError(
            f"{file} declares no collective, so there is nothing to compile; add one, as `all_gather on ...`"
        )
    artefact.save(target, force=force)
    if page is not None:
        _write_page(page, artefact)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(artefact_json(artefact, str(target), seconds))
    else:
        from acclc.cli.tables import print_summary

        print_summary(artefact, str(target), seconds)
    return OK


def _write_page(page: Path, artefact: Artefact) -> None:
    """The page of ``acclc show``, which here can say how long each search took."""
    from acclc.forecast import view_input
    from acclc.view.page import render_page

    write_text(page, render_page(view_input(artefact.name, select(artefact, None), PAGE_SIZES, headroom=True)))


def _no_schedule(failure: NoScheduleError, name: str, seconds: float, as_json: bool) -> int:
    from acclc.summary import no_schedule_json, no_schedule_words

    if as_json:
        print_json(no_schedule_json(name, failure.problem, failure.result, seconds))
    click.echo(no_schedule_words(failure.problem, failure.result), err=True)
    return NO_SCHEDULE

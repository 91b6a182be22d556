"""``acclc compile``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from acclc.cli.common import compile_options, file_argument, json_option, make_options, print_json
from acclc.cli.failures import NO_SCHEDULE, OK


@click.command("compile")
@file_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="The artefact's folder [build/FILE]."
)
@compile_options
@click.option(
    "--emit",
    type=click.Choice(["problem", "bound", "schedule", "program", "kernel", "source"]),
    help="Print one level of the compiler instead of writing an artefact.",
)
@click.option("--force", is_flag=True, help="Replace an artefact that is there.")
@json_option
def command(
    file: Path,
    output: Path | None,
    settings: tuple[str, ...],
    without: tuple[str, ...],
    time_limit: float | None,
    seed: int,
    workers: int,
    emit: str | None,
    force: bool,
    as_json: bool,
) -> int:
    """Compile FILE: find schedules, prove them, generate kernels, and write an artefact that Python can import."""
    from acclc.artefact import Artefact, check_output
    from acclc.cli.progress import ProgressLine
    from acclc.driver import NoScheduleError, compile_file, emit_levels
    from acclc.summary import artefact_json

    started = time.perf_counter()
    options = make_options(settings, without, time_limit, seed, workers)
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
            return _no_schedule(failure, as_json)
    if not artefact.collectives:
        click.echo(f"{file} declares no collective: nothing to compile", err=True)
        return OK
    artefact.save(target, force=force)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(artefact_json(artefact, str(target), seconds))
    else:
        from acclc.cli.tables import print_summary

        print_summary(artefact, str(target), seconds)
    return OK


def _no_schedule(failure: Exception, as_json: bool) -> int:
    from acclc.driver import NoScheduleError
    from acclc.summary import no_schedule_json, no_schedule_words

    assert isinstance(failure, NoScheduleError)
    if as_json:
        print_json(no_schedule_json(failure.problem, failure.result))
    click.echo(no_schedule_words(failure.problem, failure.result), err=True)
    return NO_SCHEDULE

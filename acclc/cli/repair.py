"""``acclc repair``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from acclc.cli.common import (
    artefact_argument,
    damage_options,
    json_option,
    make_options,
    print_json,
    search_options,
)
from acclc.cli.failures import NO_SCHEDULE, OK


@click.command("repair")
@artefact_argument
@damage_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="The new artefact [ARTEFACT_repaired]."
)
@search_options
@click.option("--force", is_flag=True, help="Replace an artefact that is there.")
@json_option
def command(
    artefact: Path,
    without: tuple[str, ...],
    degrade: tuple[str, ...],
    output: Path | None,
    time_limit: float | None,
    seed: int,
    workers: int,
    force: bool,
    as_json: bool,
) -> int:
    """Mend ARTEFACT for its machine without some links, or with slower ones: schedules that hold are kept.

    What does not hold any more is searched for again; old, new and bound are compared.
    """
    from acclc.artefact import check_output, load_artefact
    from acclc.cli.progress import ProgressLine
    from acclc.driver import NoScheduleError
    from acclc.repair import repair
    from acclc.summary import no_schedule_json, no_schedule_words, repair_json

    if not without and not degrade:
        raise click.UsageError('say what is broken: --without "g[0] <-> g[1]", or --degrade "g[0] <-> g[1] = 10 GB/s"')
    started = time.perf_counter()
    target = output if output is not None else artefact.with_name(f"{artefact.resolve().name}_repaired")
    check_output(target, force=force)
    loaded = load_artefact(artefact)
    options = make_options((), without, degrade, time_limit, seed, workers)
    with ProgressLine(sys.stderr) as line:
        try:
            repaired = repair(loaded, options, line)
        except NoScheduleError as failure:
            if as_json:
                seconds = time.perf_counter() - started
                print_json(no_schedule_json(target.name, failure.problem, failure.result, seconds))
            click.echo(no_schedule_words(failure.problem, failure.result), err=True)
            return NO_SCHEDULE
    repaired.artefact.save(target, force=force)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(repair_json(repaired, str(artefact), str(target), options, seconds))
    else:
        from acclc.cli.tables import print_repair

        print_repair(repaired, str(target), seconds)
    return OK

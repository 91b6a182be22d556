"""The command line: one file a command, no logic. Commands are imported when used, so that --help is quick."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from acclc import __version__

COMMANDS = {
    "compile": "Compile a file: schedules, proofs and kernels into an artefact.",
    "check": "Report every error of a file.",
    "fmt": "Print a file in canonical form, or rewrite it.",
    "explain": "Explain a diagnostic's code at length.",
    "bound": "Lower bounds with what proves them, and the headroom over ring and tree.",
    "verify": "Check an artefact again, from its files alone.",
    "run": "Run an artefact on random data and check the results.",
    "bench": "Time an artefact as nccl-tests does, with the bound and peers beside.",
    "tune": "Measure the variants on this machine, and choose by the figures.",
    "simulate": "Time, link loads and what limits them, by the alpha-beta model.",
    "show": "Write the schedule as one interactive page.",
    "trace": "Write a trace for Perfetto or Chrome.",
    "plot": "Draw figures: rates, times, speed-ups, links, scaling, synthesis.",
    "export": "Write schedules for other engines: MSCCL, MSCCL++.",
    "repair": "Mend an artefact where links are gone or slower.",
    "topo": "List, show, import, join, discover and measure topologies.",
    "doctor": "Check what acclc needs of this machine, by using it.",
}
"""Name -> what it does. Each lives in a module of its name here (``compile`` in ``compile_``)."""


class _Commands(click.Group):
    """Finds commands by name; lists them without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"acclc.cli.{'compile_' if cmd_name == 'compile' else cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from acclc.diagnostics import suggest

            near = suggest(args[0], COMMANDS)
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click itself would end the process with 1
            from acclc.cli.failures import ReaderGoneError

            raise ReaderGoneError from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="acclc")
def main_group() -> None:
    """A compiler for collective communication: describe a machine and a collective, get a proven schedule that runs.

    Exit codes: 0 ok, 1 the input is at fault or a check failed, 2 usage, 3 no schedule exists or none was found,
    70 our bug.
    """


def main() -> None:
    """Entry point: runs a command and turns every foreseen failure into a message and an exit code."""
    from acclc.cli.failures import run

    sys.exit(run(main_group))

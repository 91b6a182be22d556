"""From exceptions to messages and exit codes: the only place where a failure becomes text for a user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

OK, FAULT, USAGE, NO_SCHEDULE, BUG = 0, 1, 2, 3, 70


class ReaderGoneError(Exception):
    """Nobody reads standard output any more (``acclc ... | head -1``)."""


def run(command: Callable[..., Any]) -> int:
    """Run a click command; return the exit code. Only with ACCLC_DEBUG set does a traceback reach the user."""
    _open_closed_streams()
    try:
        result = command(standalone_mode=False, prog_name="acclc")
        sys.stdout.flush()
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except (BrokenPipeError, ReaderGoneError):
        # keep Python from failing again when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("ACCLC_DEBUG"):
            raise
        return _report(error)


def _open_closed_streams() -> None:
    """Where the caller has closed an output (``>&-``), what is said there is lost, and the command works on."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def describe(error: Exception) -> dict[str, Any]:
    """What ``--json`` prints of a failure: ``ok`` false, ``error``, and the ``diagnostics`` of a wrong text."""
    from acclc.diagnostics import DiagnosticError

    if isinstance(error, DiagnosticError):
        diagnostics = [d.to_dict() for d in error.diagnostics]
        first = next(d for d in error.diagnostics if d.severity == "error")
        return {"ok": False, "error": first.message, "diagnostics": diagnostics}
    return {"ok": False, "error": error.format_message() if isinstance(error, click.ClickException) else str(error)}


def _report(error: Exception) -> int:
    from acclc.artefact import OutputError
    from acclc.diagnostics import DiagnosticError, render
    from acclc.export.errors import ExportError
    from acclc.plots.samples import PlotError
    from acclc_runtime.errors import AcclcRuntimeError

    if isinstance(error, DiagnosticError):
        print(render(error.diagnostics, colour=_colour()), file=sys.stderr, end="")
        return FAULT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else "cannot write the output: "
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return FAULT
    if isinstance(error, OutputError | ExportError | PlotError | AcclcRuntimeError):
        print(f"error: {error}", file=sys.stderr)
        return FAULT
    return _report_bug(error)


def _report_bug(error: Exception) -> int:
    from acclc import __version__

    print(
        f"internal error: {type(error).__name__}: {error}\n"
        f"This is a bug of acclc {__version__}, not of your input. Please report it with the input and the output of\n"
        "the same command run with ACCLC_DEBUG=info in its environment.",
        file=sys.stderr,
    )
    return BUG


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")

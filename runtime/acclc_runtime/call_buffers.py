"""Buffers for a call that acclc makes by itself (run, bench, tune): laid out apart or in place, and filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from acclc_runtime.manifest import ManifestCollective


def buffers_of(
    collective: ManifestCollective, n: int, count: int, in_place: bool, make: Callable[[int], Any]
) -> tuple[Any, Any]:
    """Return the input and the output of the rank at index ``n``; None where it has none.

    In place one lies in the other. ``make`` gives an array of so many elements.
    """
    units_in, units_out = collective.input_units[n], collective.output_units[n]  # no units: no buffer, of any count
    first = collective.positions[n] * count
    way = collective.in_place if in_place and units_in and units_out else "none"
    source = make(units_in * count) if units_in and way in ("none", "output_in_input") else None
    target = make(units_out * count) if units_out and way != "output_in_input" else None
    if way == "same":
        source = target
    elif way == "input_in_output" and target is not None:
        source = target[first : first + units_in * count]
    elif way == "output_in_input" and source is not None:
        target = source[first : first + units_out * count]
    return source, target


def copy_in(target: Any, values: np.ndarray[Any, Any]) -> None:
    """Write values of the host into an array, of the host or of a GPU."""
    if isinstance(target, np.ndarray):
        target[:] = values
    else:
        with target.device:
            target.set(values)

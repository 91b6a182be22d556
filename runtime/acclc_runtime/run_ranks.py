"""What ``acclc run --engine mpi`` does: every rank runs the same combinations on its own data, rank 0 gets the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from acclc_runtime.call_buffers import buffers_of, copy_in
from acclc_runtime.dtypes import named
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError
from acclc_runtime.reference import check as compare
from acclc_runtime.reference import random_inputs
from acclc_runtime.run import POISON, Case, RunRow, cases_to_run, row_of

Gather = Callable[[Any], list[Any] | None]
"""Brings what every rank gives to rank 0, in order; the others get None."""


def run_checks_on_ranks(
    comm: Any,
    gather: Gather,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    ops: Sequence[str],
    *,
    engine: str,
    seed: int = 0,
    iterations: int = 1,
    only: str | None = None,
    check: bool = True,
) -> list[RunRow]:
    """Run each variant by name, and the one that the size chooses; see :func:`acclc_runtime.run.run_checks`.

    All ranks of ``comm`` call this; rank 0 gets the rows, the others none. After a call that failed no more are made.

    Raises:
        ArgumentError: an unknown name, or nothing is left to run.
    """
    rows: list[RunRow] = []
    anything = False
    for case in cases_to_run(comm.manifest, sizes, dtypes, ops, (False, True), only, seed, ("simple",)):
        anything = True
        mine = _run_case(comm, case, engine, seed, iterations, check)
        told = gather(mine)
        if told is not None:
            found = [row for row in told if row is not None]
            error = next((row.error for row in found if row.error), "")
            seconds = max(row.seconds for row in found)
            rate = found[0].bytes / seconds / 1e9 if seconds else 0.0
            rows.append(
                replace(found[0], seconds=seconds, algbw_GBps=rate, wrong=sum(r.wrong for r in found), error=error)
            )
        if mine is not None and mine.error:
            break
    if not anything:
        raise ArgumentError("nothing to run: no collective of the artefact takes these types and operators")
    return rows


def _run_case(comm: Any, case: Case, engine: str, seed: int, iterations: int, check: bool) -> RunRow | None:
    collective = case.collective
    if comm.rank not in collective.ranks:
        return None
    n = collective.ranks.index(comm.rank)
    kind = named(case.dtype)
    inputs = random_inputs(collective, case.count, case.dtype, seed, op=case.op, counts=case.counts)
    x, out = _buffers(comm, case, n)
    pristine = inputs[n]
    told: dict[str, Any] = {} if case.counts is None else {"counts": case.counts}
    row = row_of(case, comm, engine)
    seconds = []
    try:
        for _ in range(1 + iterations):
            if out is not None:
                out.view(np.uint8)[:] = POISON
            if x is not None and pristine is not None:
                copy_in(x, pristine)
            begin = time.perf_counter()
            sized = comm.empty(case.count, kind.storage) if x is None and out is None else x
            comm.collective(collective.name, sized, out, case.op, variant=case.variant, dtype=case.dtype, **told)
            seconds.append(time.perf_counter() - begin)
    except AcclcRuntimeError as error:
        return replace(row, error=f"rank {comm.rank}: {error}")
    row = replace(row, seconds=median(seconds[1:]))
    if not check:
        return row
    outs = [out if i == n else None for i in range(len(collective.ranks))]
    found = compare(collective, inputs, outs, case.count, case.dtype, case.op, 1, case.counts, only=n)
    fault = ""
    if found.wrong:
        fault = found.mismatches[0].words
    elif not case.in_place and x is not None and pristine is not None:
        same = np.array_equal(x.view(np.uint8), pristine.view(np.uint8))
        fault = "" if same else f"rank {comm.rank}'s input was written to"
    return replace(row, wrong=found.wrong, error=fault)


def _buffers(comm: Any, case: Case, n: int) -> tuple[Any, Any]:
    collective, storage = case.collective, named(case.dtype).storage
    if case.counts is None:
        return buffers_of(collective, n, case.count, case.in_place, lambda length: comm.empty(length, storage))
    position = collective.positions[n]
    sent, got = sum(case.counts[position]), sum(row[position] for row in case.counts)
    return comm.empty(sent, storage), comm.empty(got, storage)

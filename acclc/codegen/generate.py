"""KernelPlan -> text of kernel.cu, by one template and the prelude."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import jinja2

from acclc.codegen.make_plan import make_plan
from acclc.ir.kernel_program import KernelProgram
from acclc.ir.plan import KernelPlan, PlanPlace
from acclc.resources import folder

PRELUDE = {
    "simple": ("types.cuh", "partition.cuh", "run.cuh", "put.cuh"),
    "ll": ("types.cuh", "partition.cuh", "run.cuh", "put.cuh", "lines.cuh"),
}
"""Files of templates/device, by protocol, each after those that it includes."""


def environment(templates: Path) -> jinja2.Environment:
    """Return the template environment: delimiters that leave C++ alone, and an error for every unknown name."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="//%",
        variable_start_string="@{",
        variable_end_string="}",
        block_start_string="@@{",
        block_end_string="}@@",
        comment_start_string="@#{",
        comment_end_string="}#@",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["places"] = _places
    made.filters["targets"] = _targets
    return made


def _places(places: tuple[PlanPlace, ...]) -> str:
    """Print the sources of a put."""
    edges = ("" if place.edge < 0 else f", {place.edge}, {place.transfer}" for place in places)
    return ", ".join(f"{p.function}({p.position}, {p.number}{edge})" for p, edge in zip(places, edges, strict=True))


def _targets(places: tuple[PlanPlace, ...]) -> str:
    return _places(places) if len(places) == 1 else f"to({_places(places)})"


@lru_cache(maxsize=2)
def prelude(protocol: str = "simple") -> str:
    """Return the prelude as one text: the files in order, without their includes of each other."""
    texts = [(folder("templates") / "device" / name).read_text(encoding="utf-8") for name in PRELUDE[protocol]]
    joined = "\n".join(texts)
    return re.sub(r"^#(pragma once|include \"\w+\.cuh\")\n", "", joined, flags=re.MULTILINE)


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    return environment(folder("templates")).get_template("kernel.cu.j2")


def render(plan: KernelPlan) -> str:
    """Return the text of kernel.cu for ``plan``."""
    return _template().render(plan=plan, prelude=prelude(plan.protocol))


def generate(kernel: KernelProgram) -> str:
    """Return kernel.cu of a kernel program: the same bytes for the same program, whoever compiles them.

    Raises:
        KernelProgramError: see :func:`acclc.codegen.make_plan.make_plan`.
    """
    return render(make_plan(kernel))

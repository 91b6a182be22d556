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

PRELUDE = ("types.cuh", "partition.cuh", "run.cuh", "put.cuh")
"""Files of templates/device, each after those that it includes."""


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
    return ", ".join(f"{place.function}({place.position}, {place.number})" for place in places)


def _targets(places: tuple[PlanPlace, ...]) -> str:
    return _places(places) if len(places) == 1 else f"to({_places(places)})"


@lru_cache(maxsize=1)
def prelude() -> str:
    """Return the prelude as one text: the files in order, without their includes of each other."""
    texts = [(folder("templates") / "device" / name).read_text(encoding="utf-8") for name in PRELUDE]
    joined = "\n".join(texts)
    return re.sub(r"^#(pragma once|include \"\w+\.cuh\")\n", "", joined, flags=re.MULTILINE)


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    return environment(folder("templates")).get_template("kernel.cu.j2")


def render(plan: KernelPlan) -> str:
    """Return the text of kernel.cu for ``plan``."""
    return _template().render(plan=plan, prelude=prelude())


def generate(kernel: KernelProgram) -> str:
    """Return kernel.cu of a kernel program: the same bytes for the same program, whoever compiles them.

    Raises:
        KernelProgramError: see :func:`acclc.codegen.make_plan.make_plan`.
    """
    return render(make_plan(kernel))

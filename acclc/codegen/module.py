"""The importable module of an artefact, from its manifest."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from acclc import resources
from acclc_runtime.manifest import Manifest


def render_module(manifest: Manifest) -> str:
    """Return the text of the artefact's ``__init__.py``: a few lines that load it by the runtime."""
    environment = Environment(
        loader=FileSystemLoader(resources.folder("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        line_statement_prefix="//%",
        variable_start_string="@{",
        variable_end_string="}",
        autoescape=False,  # Python is generated, not HTML; every name was checked to be an identifier
    )
    emitted = {"types": manifest.types, "operators": manifest.ops, "architectures": manifest.architectures}
    return environment.get_template("module.py.j2").render(
        name=manifest.name,
        collectives=[c.name for c in manifest.collectives],
        compiler=manifest.compiler,
        emitted=[f"{what}: {', '.join(values)}" for what, values in emitted.items() if values],
    )

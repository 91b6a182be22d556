"""acclc: a compiler for collective communication.

``compile_file`` and ``compile_text`` run the whole pipeline of :mod:`acclc.driver`; the returned
artefact is saved to a folder that :mod:`acclc_runtime` loads without this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Artefact", "__version__", "compile_file", "compile_text"]

if TYPE_CHECKING:
    from acclc.artefact import Artefact
    from acclc.driver import compile_file, compile_text


def __getattr__(name: str) -> Any:
    # Imported when first used: `acclc --version` must not pay for the solver.
    if name in ("compile_file", "compile_text"):
        from acclc import driver

        return getattr(driver, name)
    if name == "Artefact":
        from acclc.artefact import Artefact

        return Artefact
    raise AttributeError(f"module 'acclc' has no attribute {name!r}")

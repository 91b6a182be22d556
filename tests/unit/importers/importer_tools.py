"""What an import means, on one line: the committed tables are written in it."""

from __future__ import annotations

from pathlib import Path

from acclc.diagnostics import DiagnosticError
from acclc.importers import Imported, import_machine, source_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "importers"


def meaning(path: Path) -> str:
    """``g 8, plx 4 | nvlink 20x24, pcie 12x12 | codes of warnings``, or ``error CODE LINE:COLUMN``.

    Of a class: effective GB/s x number of links; ``>`` marks links of one direction.
    """
    try:
        imported = import_machine(source_of(path.read_bytes(), path.name))
    except DiagnosticError as error:
        parts = []
        for d in error.diagnostics:
            if d.severity == "error":
                place = d.to_dict()
                parts.append(f"error {d.code} {place['line']}:{place['column']}")
        return "; ".join(parts)
    return in_words(imported)


def in_words(imported: Imported) -> str:
    arrays: dict[str, int] = {}
    for node in imported.nodes:
        arrays[node.array] = arrays.get(node.array, 0) + 1
    classes = []
    for cls in imported.classes:
        for both in (True, False):
            total = sum(link.count for link in imported.links if link.cls == cls.name and link.both is both)
            if total:
                classes.append(f"{cls.name} {float(cls.rate) / 1e9:.5g}x{total}{'' if both else '>'}")
    nodes = ", ".join(f"{array} {size}" for array, size in arrays.items())
    codes = [w.code.removeprefix("import-") for w in imported.warnings]
    warnings = " ".join(
        f"{code} x{codes.count(code)}" if codes.count(code) > 1 else code for code in dict.fromkeys(codes)
    )
    budgets = f", budgets {len(imported.budgets)}" if imported.budgets else ""
    return f"{nodes} | {', '.join(classes)}{budgets}" + (f" | {warnings}" if warnings else "")

"""A matrix of ``nvidia-smi topo -m`` as data: one cell for each pair, checked against each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from acclc.diagnostics import Label, suggest
from acclc.importers import matrix, pcie
from acclc.importers.matrix import DEVICE, Matrix, Row, Token
from acclc.importers.model import Draft

Pair = tuple[int, int]
NV = re.compile(r"NV(\d+)$")
_KNOWN = ("X", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "C2C", "DIS")


@dataclass(slots=True)
class Table:
    """A matrix as data: devices (GPUs first, by number), and the cell of each pair."""

    names: list[str]
    gpus: int
    cells: dict[Pair, Token] = field(default_factory=dict)
    """Pair (a < b) -> the cell that says it."""
    cpus: list[str] = field(default_factory=list)
    numa: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def links(self) -> dict[Pair, int]:
        """NVLinks of pairs of GPUs."""
        found = {}
        for (a, b), token in self.cells.items():
            match = NV.match(token.text.upper())
            if match and b < self.gpus and int(match.group(1)) > 0:
                found[a, b] = int(match.group(1))
        return found

    def paths(self) -> dict[Pair, int]:
        """How far up the PCIe tree the paths of pairs go, where the cell says it."""
        level = pcie.LEVELS
        return {pair: level[t.text.upper()] for pair, t in self.cells.items() if t.text.upper() in level}


def read_table(draft: Draft, found: Matrix) -> Table | None:
    """Read a matrix, complaining of what is damaged, missing or contradictory."""
    names = _names(draft, found)
    if names is None:
        return None
    number = {name: i for i, name in enumerate(names)}
    order = sorted(range(len(names)), key=lambda i: _rank(names[i], i))
    place = {old: new for new, old in enumerate(order)}
    table = Table([names[i] for i in order], sum(1 for n in names if DEVICE.match(n)))
    table.cpus, table.numa, table.lines = ([""] * len(names), [""] * len(names), [0] * len(names))
    seen: dict[int, Row] = {}
    said: dict[tuple[int, int], Token] = {}
    for row in found.rows:
        at = number.get(row.name.text)
        if at is None:
            draft.error("import-damaged", f"the row of `{row.name.text}` has no column", row.name.span)
            continue
        if at in seen:
            draft.error("import-contradiction", f"two rows of `{row.name.text}`", row.name.span, seen[at].name.span)
            continue
        seen[at] = row
        _read_row(draft, row, at, names, said)
        _read_affinities(draft, found, row, place[at], table)
    _missing_rows(draft, found, names, seen)
    _pairs(draft, said, place, names, table, seen)
    return table


def _rank(name: str, column: int) -> tuple[int, int]:
    """GPUs by their number, then the cards in the order of the columns."""
    return (0, int(name[3:])) if DEVICE.match(name) else (1, column)


def _names(draft: Draft, found: Matrix) -> list[str] | None:
    names = list(found.names)
    for i, name in enumerate(names):
        if name in names[:i]:
            tokens = found.header or tuple(r.name for r in found.rows)
            draft.error("import-contradiction", f"two columns `{name}`", tokens[i].span, tokens[names.index(name)].span)
            return None
    if not found.header:
        width = max(len(r.cells) for r in found.rows)
        if width != len(names):
            draft.error(
                "import-missing",
                f"the matrix has no header, and {len(names)} rows for {width} columns",
                found.rows[0].name.span,
                help="paste the line with the names of the columns too",
            )
            return None
        draft.assume("the columns are in the order of the rows, since the header is missing")
    return names


def _read_row(draft: Draft, row: Row, at: int, names: list[str], said: dict[tuple[int, int], Token]) -> None:
    if len(row.cells) > len(names):
        draft.error("import-damaged", f"{len(row.cells)} cells for {len(names)} columns", row.cells[len(names)].span)
    for column, token in enumerate(row.cells[: len(names)]):
        text = token.text.upper()
        if column != at:
            said[at, column] = token
        if not matrix.CELL.match(text):
            near = suggest(text, _KNOWN)
            draft.error(
                "import-damaged",
                f"`{token.text}` is no class of a path",
                Label(token.span, f"{names[at]} to {names[column]}"),
                help=f"did you mean `{near}`?"
                if near and near != text
                else "a cell is X, NV#, " + ", ".join(_KNOWN[2:7]),
            )
        elif (text == "X") != (column == at):
            what = "a device to itself is X" if column == at else "X stands for a device and itself"
            draft.error(
                "import-contradiction",
                f"`{token.text}` from {names[at]} to {names[column]}: {what}",
                Label(token.span, "is a cell missing before it?"),
            )


def _read_affinities(draft: Draft, found: Matrix, row: Row, at: int, table: Table) -> None:
    table.lines[at] = draft.source.position(row.name.span.start)[0]
    values = _columns(found, row)
    titles = [t.replace(" ", "") for t in found.titles]
    for title, value in zip(titles, values, strict=False):
        if title == "CPUAffinity" and value not in ("", "N/A"):
            table.cpus[at] = value
        elif title == "NUMAAffinity" and value not in ("", "N/A"):
            table.numa[at] = value


def _columns(found: Matrix, row: Row) -> list[str]:
    """Return the values behind the cells: by tabs where these separate them (a cell may be empty), else by blanks."""
    by_blanks = [t.text for t in row.rest]
    if any(row.columns) and all(len(c.split()) <= 1 for c in row.columns):
        return list(row.columns)
    return by_blanks


def _missing_rows(draft: Draft, found: Matrix, names: list[str], seen: dict[int, Row]) -> None:
    missing = [n for i, n in enumerate(names) if i not in seen]
    if not missing:
        return
    last = found.rows[-1]
    if (any(DEVICE.match(n) for n in missing) and len(missing) > 1) or len(names) - len(missing) < 1:
        draft.error(
            "import-missing",
            f"the matrix has no row for {', '.join(f'`{n}`' for n in missing[:8])}",
            Label(last.name.span, "the last row"),
            help="paste the whole matrix",
        )
    else:
        draft.assume(f"the row of {', '.join(missing)} is missing; its cells were taken from the other rows")


def _pairs(
    draft: Draft,
    said: dict[tuple[int, int], Token],
    place: dict[int, int],
    names: list[str],
    table: Table,
    seen: dict[int, Row],
) -> None:
    """Bring both cells of each pair together."""
    short: list[str] = []
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            one, two = said.get((a, b)), said.get((b, a))
            if one is None and two is None:
                if a in seen and b in seen and _is_pair_needed(names[a], names[b]):
                    row = seen[a] if len(seen[a].cells) <= b else seen[b]
                    draft.error(
                        "import-missing",
                        f"no cell says how {names[a]} and {names[b]} are joined",
                        Label(row.name.span, f"{len(row.cells)} of {len(names)} cells"),
                        help="paste the whole row",
                    )
                    draft.check()
                continue
            token = one or two
            assert token is not None
            if one is None or two is None:
                short.append(names[b] if one is not None else names[a])
            elif one.text.upper() != two.text.upper() and _are_classes(one, two) and not _same(one.text, two.text):
                draft.error(
                    "import-contradiction",
                    f"{names[a]} to {names[b]} is {one.text}, but {names[b]} to {names[a]} is {two.text}",
                    Label(one.span, "this"),
                    Label(two.span, "and this cannot both be true"),
                )
            x, y = place[a], place[b]
            table.cells[min(x, y), max(x, y)] = token
    if short:
        rows = ", ".join(dict.fromkeys(short))
        draft.assume(f"cells that the row of {rows} lacks are as in the columns")


def _is_pair_needed(a: str, b: str) -> bool:
    return bool(DEVICE.match(a) and DEVICE.match(b))


def _are_classes(*tokens: Token) -> bool:
    """Whether cells are well-formed: what is wrong with the others was already said."""
    return all(matrix.CELL.match(t.text) and t.text.upper() != "X" for t in tokens)


def _same(one: str, two: str) -> bool:
    return {one.upper(), two.upper()} == {"SYS", "SOC"}

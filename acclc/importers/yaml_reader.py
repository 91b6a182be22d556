"""The part of YAML that ASTRA-sim's network files use: keys with a number, a word, or a list of these; comments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from acclc.importers.matrix import lines
from acclc.importers.model import Draft
from acclc.source import Span

_KEY = re.compile(r"\s*([A-Za-z_][\w-]*)\s*:(?=\s|$)\s*")
_ITEM = re.compile(r"\s*-\s+")
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,\[\]#]+")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A word or number and its place."""

    text: str
    span: Span


@dataclass(slots=True)
class Entry:
    """A key and its values; ``is_list`` tells ``8`` from ``[ 8 ]``."""

    key: Scalar
    values: list[Scalar]
    is_list: bool = False


def read(draft: Draft) -> dict[str, Entry]:
    """Return the entries of a file. Raises DiagnosticError for anything that is not of this part of YAML."""
    entries: dict[str, Entry] = {}
    current: Entry | None = None
    opened: Span | None = None
    for _, start, raw in lines(draft.source):
        text = _without_comment(raw.rstrip("\r"))
        if not text.strip() or text.strip() in ("---", "..."):
            continue
        at = 0
        if opened is None:
            key, item = _KEY.match(text), _ITEM.match(text)
            if item and current is not None and (current.is_list or not current.values):
                current.is_list = True
                _scalars(draft, text, start, item.end(), current)
                continue
            if key is None:
                place = Span(draft.source, start + len(text) - len(text.lstrip()), start + len(text.rstrip()))
                draft.fail("import-damaged", "neither `key: value` nor an item of a list", place)
                continue
            word = Scalar(key.group(1), Span(draft.source, start + key.start(1), start + key.end(1)))
            if word.text in entries:
                draft.fail(
                    "import-contradiction", f"two values of `{word.text}`", word.span, entries[word.text].key.span
                )
            current = entries[word.text] = Entry(word, [])
            at = key.end()
            if text[at : at + 1] == "[":
                current.is_list = True
                opened = Span(draft.source, start + at, start + at + 1)
                at += 1
        assert current is not None
        closing = text.find("]", at) if opened is not None else -1
        _scalars(draft, text[:closing] if closing >= 0 else text, start, at, current)
        if closing >= 0:
            opened = None
            if text[closing + 1 :].strip():
                draft.fail(
                    "import-damaged", "text behind a list", Span(draft.source, start + closing + 1, start + len(text))
                )
    if opened is not None:
        draft.fail("import-damaged", "this list has no `]`", opened)
    return entries


def _scalars(draft: Draft, text: str, start: int, at: int, entry: Entry) -> None:
    while at < len(text):
        if text[at] in " \t,":
            at += 1
            continue
        match = _WORD.match(text, at)
        if match is None:
            draft.fail(
                "import-damaged", f"`{text[at]}` is not expected here", Span(draft.source, start + at, start + at + 1)
            )
            return
        place = Span(draft.source, start + match.start(), start + match.end())
        entry.values.append(Scalar(match.group().strip("\"'"), place))
        at = match.end()


def _without_comment(text: str) -> str:
    return re.sub(r"(^|\s)#.*", lambda m: m.group(1), text)

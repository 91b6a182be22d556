"""XML as a tree of elements with places. No document type, so no entities: nothing can be blown up or fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.source import Source, Span

MAX_DEPTH = 64


@dataclass(slots=True)
class Element:
    """An element; ``start`` is the offset of its ``<``."""

    source: Source
    tag: str
    attributes: dict[str, str]
    start: int
    children: list[Element] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """The place of its name."""
        return Span(self.source, self.start + 1, self.start + 1 + len(self.tag))

    def place(self, attribute: str) -> Span:
        """The place of an attribute's value, or of the name where that is not found."""
        tag = self.source.text[self.start : self.start + 4096]
        found = re.search(rf"\s{re.escape(attribute)}\s*=\s*([\"'])(.*?)\1", tag, re.DOTALL)
        if not found:
            return self.span
        return Span(self.source, self.start + found.start(2), self.start + max(found.end(2), found.start(2) + 1))

    def all(self, *tags: str) -> Iterator[Element]:
        """Yield the elements below it of some tags, in order."""
        stack = list(reversed(self.children))
        while stack:
            element = stack.pop()
            if element.tag in tags:
                yield element
            stack.extend(reversed(element.children))


class _RefusedError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def read(source: Source) -> Element:
    """Return the root of a text in XML.

    Raises:
        DiagnosticError: the text is not well-formed, has a document type, or is nested too deep.
    """
    data = source.text.encode("utf-8", errors="replace")
    text_is_ascii = len(data) == len(source.text)
    parser = expat.ParserCreate("utf-8")
    stack: list[Element] = []
    roots: list[Element] = []

    def offset() -> int:
        at = max(0, parser.CurrentByteIndex)
        return at if text_is_ascii else len(data[:at].decode("utf-8", errors="replace"))

    def begin(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) >= MAX_DEPTH:
            raise _RefusedError(f"elements nested more than {MAX_DEPTH} deep")
        element = Element(source, tag, attributes, offset())
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise _RefusedError("a document type (`<!DOCTYPE`), which no topology needs")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as caught:
        at = parser.ErrorByteIndex
        place = at if text_is_ascii else len(data[:at].decode("utf-8", errors="replace"))
        raise DiagnosticError(_damaged(source, place, _reason(caught, stack), stack)) from None
    except _RefusedError as refused:
        raise DiagnosticError(_damaged(source, offset(), refused.message, [])) from None
    return roots[0]


def _reason(caught: expat.ExpatError, stack: list[Element]) -> str:
    words = expat.errors.messages.get(caught.code, "not well-formed")
    if words == "no element found":
        return f"the text ends before `</{stack[-1].tag}>`" if stack else "there is no element"
    return f"not well-formed XML: {words}"


def _damaged(source: Source, at: int, message: str, stack: list[Element]) -> Diagnostic:
    at = min(at, len(source.text))
    labels = [Label(Span(source, at, min(at + 1, len(source.text))))]
    if stack:
        labels.append(Label(stack[-1].span, "in this element"))
    return Diagnostic("import-damaged", message, tuple(labels))

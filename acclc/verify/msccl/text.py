"""The text of an algorithm as the engines' own reader sees it, which is no XML parser.

It reads character by character (``mscclXmlGetNode``, ``mscclXmlGetToken`` and ``mscclXmlGetValue`` of
``src/misc/msccl/msccl_parser.cc``): one blank before each attribute, values in double quotes, no other blank in a tag,
no declaration, and its tables have fixed lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

from acclc.verify.findings import Collector, Report

LENGTH = 255
"""A name has fewer characters than this, and so has a value."""
ATTRIBUTES = 16
_BLANKS = " \n\r"


class _RefusedError(Exception):
    """The engines' reader stops here."""


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0

    def take(self) -> str:
        if self.at >= len(self.text):
            raise _RefusedError("the text ends within an element")
        self.at += 1
        return self.text[self.at - 1]

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1


def check_text(text: str) -> Report[None]:
    """Check that the engines' reader gets through a text, and sees the same elements as an XML parser."""
    found = Collector()
    reader = _Reader(text)
    open_tags: list[str] = []
    try:
        while (tag := _node(reader)) is not None:
            name, kind = tag
            if kind == "close":
                if not open_tags or open_tags.pop() != name:
                    raise _RefusedError(f"</{name}> closes nothing that is open")
            elif kind == "open":
                open_tags.append(name)
        if open_tags:
            raise _RefusedError(f"<{open_tags[-1]}> is not closed")
    except _RefusedError as refused:
        found.error("msccl.text", f"line {reader.line}", str(refused))
    return found.report()


def _node(reader: _Reader) -> tuple[str, str] | None:
    """Read one tag; None at the end."""
    while reader.at < len(reader.text) and reader.text[reader.at] in _BLANKS:
        reader.at += 1
    if reader.at >= len(reader.text):
        return None
    char = reader.take()
    if char != "<":
        raise _RefusedError(f"expects `<`, and there is {char!r}")
    if reader.text.startswith("!--", reader.at):
        end = reader.text.find("-->", reader.at)
        if end < 0:
            raise _RefusedError("a comment without an end")
        reader.at = end + 3
        return _node(reader)
    name, last = _name(reader)
    if not name and last == "/":
        name, last = _name(reader)
        if last != ">":
            raise _RefusedError(f"blanks or text in </{name}>")
        return name, "close"
    attributes = 0
    while last == " ":
        last = _attribute(reader)
        attributes += 1
        if attributes > ATTRIBUTES:
            raise _RefusedError(f"more than {ATTRIBUTES} attributes in <{name}>")
    if last == "/":
        last = reader.take()
        if last != ">":
            raise _RefusedError(f"expects `/>` at the end of <{name}>")
        return name, "single"
    if last != ">":
        raise _RefusedError(
            f"a line break or text in <{name}>: a tag is on one line, with one blank between attributes"
        )
    return name, "open"


def _name(reader: _Reader) -> tuple[str, str]:
    begin = reader.at
    while (char := reader.take()) not in " >/\n\r":
        if reader.at - begin >= LENGTH:
            raise _RefusedError(f"a name of {LENGTH} characters or more")
        if char == "=":
            raise _RefusedError("a value where an element's name is expected")
    return reader.text[begin : reader.at - 1], char


def _attribute(reader: _Reader) -> str:
    begin = reader.at
    while (char := reader.take()) != "=":
        if char in " >/\n\r" or reader.at - begin >= LENGTH:
            raise _RefusedError("a blank too many, or an attribute without a value")
    if reader.take() != '"':
        raise _RefusedError('values stand in double quotes ("), and no blank before them')
    begin = reader.at
    while reader.take() != '"':
        if reader.at - begin >= LENGTH:
            raise _RefusedError(f"a value of {LENGTH} characters or more")
    return reader.take()

"""What the site needs beside mkdocs: a page that is another file of the repository, and links that lead out of docs/.

``--8<-- "grammar/README.md"`` alone on a page stands for that file. A link to a file of docs/ becomes one of the site;
of a link to any other file of the repository its path is left, since the site does not hold it.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_INCLUDED = re.compile(r'\s*--8<-- "([^"]+)"\s*')
_ROLE = re.compile(r":(?:func|class|mod|meth):(?=\s*<code)")
"""Sphinx's marks in docstrings, which mkdocs shows as they are."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)\)")


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Return the page's text with the file and the links in place; called by mkdocs."""
    folder = (DOCS / given["page"].file.src_uri).parent
    included = _INCLUDED.fullmatch(markdown)
    if included:
        path = ROOT / included[1]
        markdown, folder = path.read_text(encoding="utf-8"), path.parent
    return _LINK.sub(partial(_link, folder), markdown)


def on_page_content(html: str, **_given: Any) -> str:
    """Return the page's HTML without Sphinx's marks; called by mkdocs."""
    return _ROLE.sub("", html)


def _link(folder: Path, match: re.Match[str]) -> str:
    text, target = match[1], (folder / match[2]).resolve()
    if target.is_relative_to(DOCS):
        return f"[{text}]({target.relative_to(DOCS).as_posix()})"
    if not target.exists() or not target.is_relative_to(ROOT):
        return match[0]  # for mkdocs to complain of
    path = target.relative_to(ROOT).as_posix()
    name = text.strip("`").removeprefix("../")
    return f"`{path}`" if path.endswith(name) else f"{text} (`{path}`)"

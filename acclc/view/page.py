"""The interactive page: one HTML file that works offline, from the templates in ``templates/page``.

The script is written as modules (``*.mjs``, tested with node). A browser may not load modules from ``file://``,
so they are joined here, in order of import, into one script: ``import`` lines fall away and ``export`` words
too. That is sound as long as top-level names are unique over all modules, which is checked.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from acclc.resources import folder
from acclc.view.model import ViewInput
from acclc.view.view_data import build_view, encode_view

ENTRY = "app.mjs"

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.mjs)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) )", re.MULTILINE)
_TOP_LEVEL = re.compile(r"^(?:async )?(?:function|const|let|class) ([A-Za-z_$][\w$]*)", re.MULTILINE)


def render_page(view: ViewInput) -> str:
    """Return the page as HTML. It needs nothing but itself: no network, no other file.

    Every text of the user's reaches the page as JSON that the script shows as plain text, or escaped.
    """
    pages = folder("templates") / "page"
    environment = Environment(
        loader=FileSystemLoader(pages),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.j2").render(
        name=view.name,
        style=Markup((pages / "style.css").read_text("utf-8")),
        script=Markup(join_modules(pages)),
        data=Markup(_in_script(encode_view(build_view(view)))),
    )


def _in_script(data: bytes) -> str:
    """JSON that may stand in a script element: no ``<`` at all, so neither ``</script`` nor ``<!--``."""
    return data.replace(b"<", b"\\u003c").decode()


def join_modules(pages: Path, entry: str = ENTRY) -> str:
    """Return the modules that ``entry`` needs as one script, each after those it imports.

    Raises:
        ValueError: a module uses a form of import or export that cannot be joined, a name is declared twice, or
            modules import each other in a circle.
    """
    texts: dict[str, str] = {}
    _collect(pages, entry, texts, ())
    owners: dict[str, str] = {}
    for module, text in texts.items():
        for name in _TOP_LEVEL.findall(text):
            if name in owners:
                raise ValueError(f"{module} and {owners[name]} both declare {name!r} at top level")
            owners[name] = module
    return "".join(f"// ---- {module}\n{text}" for module, text in texts.items())


def _collect(pages: Path, module: str, texts: dict[str, str], above: tuple[str, ...]) -> None:
    if module in texts:
        return
    if module in above:
        raise ValueError(f"{module} imports itself: {' -> '.join((*above, module))}")
    text = (pages / module).read_text("utf-8")
    for needed in _IMPORT.findall(text):
        _collect(pages, needed, texts, (*above, module))
    text = _EXPORT.sub("", _IMPORT.sub("", text))
    leftover = re.search(r"^(?:import|export)\b.*", text, re.MULTILINE)
    if leftover or "</script" in text:
        raise ValueError(f"{module} cannot be joined: {leftover.group() if leftover else '</script'}")
    texts[module] = text

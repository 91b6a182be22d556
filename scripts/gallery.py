"""Makes the gallery: a page for a collective on every topology of the library, and an index with their bounds.

    python scripts/gallery.py [-o build/gallery] [--collective all_gather] [--within S] [NAME ...]

NAMEs are topologies with their parameters, as ``dgx1`` or ``"torus(4, 4)"``; without any it is the whole library.
Run it in the project's environment (``.venv``). What it writes opens offline.
"""

from __future__ import annotations

import argparse
import re
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acclc.artefact import CompiledCollective

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "section{border-top:1px solid #8888;padding:1rem 0;display:flex;gap:1.5rem;flex-wrap:wrap}"
    "figure{margin:0;flex:0 0 20rem}section div{flex:1 1 24rem}svg{max-width:100%;height:auto}"
    "td,th{padding:0 .8em 0 0;text-align:left}"
)


def main() -> int:
    """Compile, draw, list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topologies", nargs="*", metavar="NAME")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/gallery"))
    parser.add_argument("--collective", default="all_gather")
    parser.add_argument("--within", type=int, default=20, metavar="S", help="seconds of search for each [20]")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    sections = []
    for name in options.topologies or _library():
        print(f"{options.collective} on {name} ...", flush=True)
        sections.append(_one(options.output, name, options.collective, options.within))
    title = f"{options.collective} on the library"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    page = f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
    index = options.output / "index.html"
    index.write_text(page + "\n".join(sections) + "</body></html>\n", encoding="utf-8")
    print(f"{index}: {len(sections)} pages")
    return 0


def _library() -> list[str]:
    """Every topology of the library, with its parameters' defaults."""
    from acclc.sema import library_names

    return sorted(library_names())


def _one(output: Path, name: str, collective: str, within: int) -> str:
    from acclc import compile_text
    from acclc.forecast import view_input
    from acclc.view.page import render_page
    from acclc.view.picture import topology_svg

    artefact = compile_text(f"{collective} on {name} {{ goal pareto, within {within} s }}\n", "gallery")
    compiled = artefact.collectives[0]
    view = view_input(f"{collective} on {name}", [(compiled, compiled.schedules)], (64 << 10, 64 << 20))
    page = re.sub(r"\W+", "_", name).strip("_") + ".html"
    (output / page).write_text(render_page(view), encoding="utf-8")
    picture = topology_svg(compiled.problem.topology)
    link = f'<a href="{page}"><h2>{escape(name)}</h2></a>'
    return f"<section><figure>{picture}</figure><div>{link}{_figures(compiled)}</div></section>"


def _figures(compiled: CompiledCollective) -> str:
    from acclc.summary import algbw_GBps, gap, gap_words, range_words
    from acclc.view.picture import html_table

    problem, bound = compiled.problem, compiled.proof.bound
    rows = [
        (v.id, f"{algbw_GBps(problem, v.time_per_byte):.2f}", gap_words(gap(problem, bound, v)), range_words(v))
        for v in compiled.schedules
    ]
    words = escape(problem.topology.doc), escape(bound.throughput.words)
    return f"<p>{words[0]}</p>{html_table(('variant', 'GB/s', 'gap', 'best for'), rows)}<p>bound: {words[1]}</p>"


if __name__ == "__main__":
    sys.exit(main())

"""The page: how large it is, how soon a person can use it, and how smoothly it plays.

    python benchmarks/page.py [--quick] [--json FILE]

Each page is opened from its file in headless Chromium (1440 x 900), five times. `interactive`: from the begin of the
navigation until the page is drawn and takes input, two frames later; the median. `frames/s`: pictures a second while it
plays for two seconds (60 at most); `longest`: the longest time between two of them. `write`: making the HTML, without
the simulation. `verified`: every schedule shown is sound by `acclc.verify`.

The 1,024 GPUs are 128 boxes of eight with eight rails, with an all_reduce of 16,368 transfers that is built by hand (in
every box, up and down a binary tree of the boxes along each rail): what is measured is the page, not a solver.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from throughput import a100, problem

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT / "tests", ROOT / "tests" / "unit" / "view"):
    sys.path.insert(0, str(place))

from view_cases import cluster_view  # noqa: E402

import acclc  # noqa: E402
from acclc.bounds import bound  # noqa: E402
from acclc.forecast import view_input  # noqa: E402
from acclc.ir.result import Status  # noqa: E402
from acclc.simulate import shard_bytes, simulate  # noqa: E402
from acclc.solve.packing import packed_schedule  # noqa: E402
from acclc.verify import check_schedule  # noqa: E402
from acclc.view.model import ViewCollective, ViewInput, ViewTimes, ViewVariant  # noqa: E402
from acclc.view.page import render_page  # noqa: E402

SIZES = (64 << 10, 64 << 20)
VISITS = 5
READY = """() => new Promise((done) => {
  const wait = () => document.documentElement.dataset.ready
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : setTimeout(wait, 5);
  wait();
})"""
PLAY = """() => new Promise((done) => {
  document.getElementById("play").click();
  const begin = performance.now();
  let [frames, longest, last] = [0, 0, begin];
  const frame = () => {
    const now = performance.now();
    [frames, longest, last] = [frames + 1, Math.max(longest, now - last), now];
    if (now - begin < 2000) requestAnimationFrame(frame);
    else done([frames / ((now - begin) / 1000), longest]);
  };
  requestAnimationFrame(frame);
})"""


@dataclass
class Row:
    """One page; seconds by the wall clock."""

    case: str
    ranks: int
    transfers: int
    verified: bool
    kilobytes: int
    write_seconds: float
    seconds: float
    """Until it is interactive, the median."""
    frames_per_second: float
    longest_frame_seconds: float
    bar: str


def cases(quick: bool) -> Iterator[tuple[str, ViewInput, str]]:
    """Name, what is shown, and the bar."""
    if not quick:
        artefact = acclc.compile_file(ROOT / "examples" / "dgx1.accl")
        chosen = [(c, c.schedules) for c in artefact.collectives]
        yield "dgx1, five collectives, all variants", view_input("dgx1", chosen, SIZES, headroom=True), "< 2 MB"
        yield "dgx_a100 x16 all_gather", packed(16), ""
    yield "1,024 GPUs all_reduce", cluster_view(128, 8), "< 3 s"


def packed(boxes: int) -> ViewInput:
    """An all_gather by packed trees, at the throughput bound."""
    task = problem(a100(boxes))
    least = bound(task)
    schedule = packed_schedule(task, bound=least.throughput.time_per_byte).schedule
    assert schedule is not None
    times = ViewTimes.of(SIZES[1], simulate(task, schedule, shard_bytes(task, SIZES[1])).transfers)
    return ViewInput("cluster", (ViewCollective(task, least, Status.OPTIMAL, (ViewVariant(schedule, (times,)),)),))


def measure(case: str, view: ViewInput, bar: str, browser: Any, folder: Path) -> Row:
    """Write a page and visit it."""
    begin = time.perf_counter()
    text = render_page(view)
    written = time.perf_counter() - begin
    path = folder / "page.html"
    path.write_text(text)
    visits, played = [], []
    for _ in range(VISITS):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(path.as_uri(), wait_until="commit")
        visits.append(page.evaluate(READY) / 1000)
        played.append(page.evaluate(PLAY))
        page.close()
    shown = [(c.problem, v.schedule) for c in view.collectives for v in c.variants]
    return Row(
        case=case,
        ranks=max(len(p.topology.ranks) for p, _ in shown),
        transfers=sum(len(s.transfers) for _, s in shown),
        verified=all(check_schedule(p, s).ok for p, s in shown),
        kilobytes=round(len(text.encode()) / 1000),
        write_seconds=round(written, 2),
        seconds=round(statistics.median(visits), 2),
        frames_per_second=round(statistics.median(f for f, _ in played), 1),
        longest_frame_seconds=round(statistics.median(longest for _, longest in played) / 1000, 3),
        bar=bar,
    )


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'case':<38}{'ranks':>6}{'transfers':>11}{'verified':>10}{'kB':>7}{'write':>7}{'interactive':>13}", end="")
    print(f"{'frames/s':>10}{'longest':>9}  bar")
    for r in rows:
        print(f"{r.case:<38}{r.ranks:>6}{r.transfers:>11}{'yes' if r.verified else 'NO':>10}{r.kilobytes:>7}", end="")
        print(
            f"{r.write_seconds:>7.2f}{r.seconds:>13.2f}{r.frames_per_second:>10}{r.longest_frame_seconds:>9}  {r.bar}"
        )


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the 1,024 GPUs alone")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if chromium is None:
        sys.exit("chromium is not on PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        made = list(cases(options.quick))
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        rows = [measure(*case, browser, Path(folder)) for case in made]
        version = browser.version
        browser.close()
    show(rows)
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "chromium": version}
        Path(options.json).write_text(json.dumps({**machine, "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    return 0 if all(r.verified for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

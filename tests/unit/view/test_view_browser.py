"""The page in a real browser: what a person does with it, without an error of the script; and how it looks."""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from view_cases import (
    cluster_view,
    even_times,
    ring_all_gather,
    ring_reduce,
    star_all_gather,
    step_times,
    view_of,
    with_programs,
)

from acclc.codegen import generate
from acclc.lower import lower_kernel, lower_program
from acclc.view.model import ViewInput, ViewVariant
from acclc.view.page import render_page

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
if CHROMIUM is None:
    pytest.skip("chromium is not on PATH", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

EVIL = "</script><script>document.title='owned'</script><!--"
GOLDEN = Path(__file__).parents[2] / "golden" / "page"
INTERACTIVE_MS = 30_000
"""Far more than the 3 s that a person may wait (``benchmarks/page.py``): machines of tests are slow and shared."""

Open = Callable[..., Any]


def two_variants() -> ViewInput:
    """An all_gather by two schedules (with kernels and programs), and a reduction."""
    problem, schedule = ring_all_gather(4)
    view = with_programs(view_of((problem, schedule), ring_reduce(4), name=EVIL))
    first = view.collectives[0]
    source = generate(lower_kernel(problem, lower_program(problem, schedule)))
    variant = replace(first.variants[0], kernel_source=source, min_bytes=0, max_bytes=10**5)
    slower = replace(schedule, chunks=schedule.chunks, strategy="other")
    other = ViewVariant(slower, (step_times(problem, slower, 2 * 10**6),), id="other", min_bytes=10**5)
    return replace(view, collectives=(replace(first, variants=(variant, other)), *view.collectives[1:]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--force-color-profile=srgb"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a view's page from a file; at the end of the test no page may have said anything on its console."""
    said: list[str] = []
    contexts = []

    def open_(view: ViewInput, asked: str = "", scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith("file:") else said.append(request.url))
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(render_page(view))
        page.goto(path.as_uri() + asked)
        page.wait_for_selector("html[data-ready]", timeout=INTERACTIVE_MS)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def status(page: Any) -> str:
    return str(page.locator("#status").inner_text())


def count(page: Any, selector: str) -> int:
    return int(page.locator(selector).count())


def bar_at(page: Any, row: int, part: float, gantt: str = "#gantt") -> tuple[float, float]:
    """Where a row of the Gantt is at a part of the whole time; rows of one lane each."""
    box = page.locator(gantt).bounding_box()
    left = 100  # about what the names take
    return box["x"] + left + part * (box["width"] - left - 10), box["y"] + 38 + row * 19 + 8


def test_it_opens_and_says_what_it_shows(open_page: Open) -> None:
    page = open_page(two_variants())
    assert page.title() == f"{EVIL} · acclc"
    assert count(page, "#graph .node") == 4
    assert count(page, "#graph .link") == 8
    assert count(page, "#graph .outline") == 1  # the cut that proves the bound
    assert count(page, "tr[data-step]") == 3
    assert count(page, "script") == 2
    assert count(page, ".time") == 0  # there are no figures to compare with at this size
    assert status(page).startswith("Step 1 of 3: 4 chunks on the way")


def test_playing_the_slider_and_the_steps(open_page: Open) -> None:
    page = open_page(two_variants())
    page.locator("#play").click()
    page.wait_for_function("() => Number(document.getElementById('time').value) > 20")
    assert count(page, "#graph .dot[visibility=visible]") == 4
    page.locator("#play").click()
    still = page.locator("#time").input_value()
    page.wait_for_timeout(60)
    assert page.locator("#time").input_value() == still
    page.locator("#time").fill("500")
    assert status(page).startswith("Step 2 of 3")
    assert page.locator("tr.current[data-step]").get_attribute("data-step") == "1"
    page.locator("#forward").click()
    assert status(page).startswith("Step 3 of 3")
    page.locator("#forward").click()
    assert status(page).startswith("Done: ")
    page.locator("tr[data-step='1'] button").click()
    assert status(page).startswith("Step 2 of 3")


def test_graph_and_gantt_answer_each_other(open_page: Open) -> None:
    page = open_page(two_variants())
    page.locator("#graph .hit").first.dispatch_event("pointermove", {"clientX": 300, "clientY": 300})
    assert count(page, "#graph .link.chosen") == 1
    assert page.locator("#tip strong").inner_text() == "g[0] → g[1]"
    page.locator("#graph .links").dispatch_event("pointerleave")
    page.mouse.move(*bar_at(page, 1, 0.1))
    assert count(page, "#graph .link.chosen") == 1
    assert page.locator("#tip strong").inner_text() == "g[1] → g[2], step 1"
    assert count(page, "#graph .dot.hover") == 1
    page.mouse.click(*bar_at(page, 1, 0.1))
    assert page.locator("#chunk").input_value() == "1"


def test_a_click_on_a_link_brings_its_row_into_view(open_page: Open) -> None:
    page = open_page(cluster_view(3, 8))
    assert page.evaluate("() => document.getElementById('gantt').scrollTop") == 0
    page.locator("#graph .hit").last.dispatch_event("click")
    assert page.evaluate("() => document.getElementById('gantt').scrollTop") > 0


def test_where_no_schedule_was_found_the_machine_and_the_bound_are_shown(open_page: Open) -> None:
    view = view_of(ring_all_gather(4))
    page = open_page(replace(view, collectives=(replace(view.collectives[0], variants=()),)))
    assert count(page, "#graph .node") == 4
    assert count(page, "#graph .outline") == 1
    assert status(page) == "There is no schedule to show."
    page.keyboard.press("b")
    page.keyboard.press(" ")
    page.keyboard.press("r")


def test_a_chunk_is_followed_from_its_origin_and_a_reduction_along_its_tree(open_page: Open) -> None:
    page = open_page(two_variants())
    page.locator("#chunk").select_option("2")
    assert status(page) == "Step 1 of 3: 1 chunk on the way, following 3 transfers"
    assert count(page, "#graph .link.dim") == 5
    assert page.locator(".tree-node text").all_text_contents() == ["2", "3", "0", "1"]
    page.locator(".tree-edge .wide").first.hover(force=True)
    assert count(page, "#graph .link.chosen") == 1
    page.mouse.move(5, 5)
    page.locator("#rank").select_option("0")
    assert "following 2 transfers" in status(page)
    page.keyboard.press("Escape")
    assert count(page, "#graph .link.dim") == 0
    assert count(page, "#tree") == 0
    page.locator("#collective").select_option("1")
    page.locator("#chunk").select_option("1")
    assert count(page, ".tree-node.merges") == 3
    assert count(page, ".tree-node.final") == 1


def test_another_variant_size_and_collective(open_page: Open) -> None:
    page = open_page(two_variants())
    assert page.locator("#variant").input_value() == "1"  # what calls of the largest size take
    page.locator("#variant").select_option("0")
    before = page.locator("#now").inner_text()
    page.locator("#size").select_option("1")
    assert page.locator("#now").inner_text() != before
    assert page.locator(".time .name").all_inner_texts() == ["bound", "c1s3r3", "ring", "tree"]
    assert "Solver: hand, 0.25 s." in page.locator("#panel").inner_text()
    page.locator("#collective").select_option("1")
    assert page.locator("#panel h2").inner_text() == "reduce_1 (reduce) on ring"


def test_a_ranks_program_and_the_kernel_are_linked_with_the_transfers(open_page: Open) -> None:
    page = open_page(two_variants(), "#variant=0")
    page.locator("#program summary").click()
    page.wait_for_selector(".operation")
    page.locator("#graph .node").nth(2).click()
    assert page.locator("#program select").input_value() == "2"
    assert count(page, ".operation.running") == 2  # its send and its receive of the first step
    page.locator(".operation.send").first.hover()
    assert count(page, "#graph .link.chosen") == 1
    page.locator(".operation.send").first.click()
    assert page.locator("#chunk").input_value() == "2"
    page.locator("#rank").select_option("")  # of its own chunk that rank receives nothing
    page.locator("#kernel summary").click()
    page.wait_for_selector("#kernel .line.marked")
    page.locator("#kernel .line.mapped").first.hover()
    assert count(page, "#graph .link.chosen") == 1


def test_two_schedules_side_by_side(open_page: Open) -> None:
    left, right = two_variants(), view_of(star_all_gather(3))
    both = replace(
        left,
        collectives=(
            *(replace(c, artefact="left") for c in left.collectives),
            *(replace(c, artefact="right", problem=replace(c.problem, name="all_gather_0")) for c in right.collectives),
        ),
    )
    page = open_page(both, "#variant=0")
    assert count(page, "#graph .node") == 4
    assert count(page, "#graph1 .node") == 4  # three ranks and a switch
    assert page.locator("#collective1 option:checked").inner_text() == "right: all_gather_0 (all_gather)"
    rows = dict(
        zip(
            *[page.locator(f"#comparison {x}").all_inner_texts() for x in ("th[scope=row]", "td:last-child")],
            strict=True,
        )
    )
    assert rows["Machine"] == "star"
    page.locator("#time").fill("200")
    assert page.locator("#status1").inner_text().startswith("right: ")
    page.locator("#chunk").select_option("1")
    assert "following 2 transfers" in page.locator("#status1").inner_text()  # the same shard there
    page.keyboard.press("b")
    assert not page.locator("#graph1").is_visible()


def test_with_the_keyboard_alone(open_page: Open) -> None:
    page = open_page(two_variants(), "#variant=0")
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("Step 2 of 3")
    page.keyboard.press("c")
    assert page.locator("#chunk").input_value() == "0"
    page.keyboard.press("Shift+C")
    assert page.locator("#chunk").input_value() == ""
    page.keyboard.press("r")
    assert page.locator("#rank").input_value() == "0"
    page.keyboard.press("Escape")
    page.keyboard.press("v")
    assert page.locator("#variant").input_value() == "1"
    page.keyboard.press("Home")
    page.locator("#gantt").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert count(page, "#graph .link.chosen") == 1
    page.keyboard.press("Enter")
    assert page.locator("#chunk").input_value() == "1"
    page.locator("#graph .node").nth(3).focus()
    page.keyboard.press("Enter")
    assert page.locator("#rank").input_value() == "3"


def contrast(page: Any, selector: str) -> float:
    """WCAG's contrast of an element's text with the page."""
    return float(
        page.evaluate(
            """(selector) => {
              const light = (text) => {
                const parts = text.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255);
                const [r, g, b] = parts.map((s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
              };
              const text = light(getComputedStyle(document.querySelector(selector)).color);
              const page = light(getComputedStyle(document.documentElement).backgroundColor);
              return Math.max(text, page) / Math.min(text, page);
            }""",
            selector,
        )
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(open_page: Open, scheme: str) -> None:
    page = open_page(two_variants(), scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    for selector in ("#panel p", "#panel .caption", "#status", "#now", ".toggle", "button.link", "label"):
        assert contrast(page, selector) >= 4.5, selector
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    assert contrast(page, "#panel .caption") >= 4.5


def test_every_control_has_a_name(open_page: Open) -> None:
    page = open_page(two_variants())
    nameless = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll("button, select, input, [role=button], [tabindex='0']")];
          const named = (e) => e.getAttribute("aria-label") || e.closest("label") ||
            (e.tagName !== "SELECT" && e.textContent.trim());
          return all.filter((e) => !named(e)).map((e) => e.outerHTML);
        }"""
    )
    assert nameless == []


def test_a_thousand_gpus_by_box_and_into_one(open_page: Open) -> None:
    page = open_page(cluster_view(128, 8))
    assert count(page, "#graph .node.box") == 128
    assert count(page, "#graph .node.gpu") == 0
    page.locator("#play").click()
    page.wait_for_function("() => Number(document.getElementById('time').value) > 20", timeout=INTERACTIVE_MS)
    page.locator("#play").click()
    page.locator("#graph .node.box").nth(5).click()
    assert page.locator("#box").input_value() == "5"
    assert count(page, "#graph .node.gpu") == 8
    assert count(page, "#graph .node.switch") == 9
    page.locator("#time").fill("20")
    assert 0 < count(page, "#graph .dot[visibility=visible]") <= 360
    page.locator("#out").click()
    assert count(page, "#graph .node.box") == 128


COMPARE = """async ([a, b]) => {
  const cells = async (data) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = new OffscreenCanvas(112, 80);
    const pen = canvas.getContext("2d");
    pen.imageSmoothingQuality = "high";
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return pen.getImageData(0, 0, canvas.width, canvas.height).data;
  };
  const [x, y] = [await cells(a), await cells(b)];
  return x.reduce((sum, v, i) => sum + Math.abs(v - y[i]), 0) / x.length;
}"""
"""The mean difference of two pictures, 0 to 255, of cells of about eight pixels: edges may be smoothed otherwise."""
FONT = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.font = "16px system-ui, sans-serif";
  return pen.measureText("box[0].g[1] 0123456789").width;
}"""
FONT_WIDTH = 196.4
"""Of DejaVu Sans, with which the pictures were taken. Other fonts move what stands beside a text."""
TOLERANCE, OTHER_FONT_TOLERANCE = 0.5, 8.0
LOOKS = {
    "light": (two_variants, "#variant=0&time=0.4&chunk=1", "light"),
    "dark": (two_variants, "#variant=0&time=0.4&chunk=1", "dark"),
    "boxes": (lambda: cluster_view(20, 8), "#time=0.3", "light"),
}


@pytest.fixture
def difference(browser: Any) -> Iterator[Callable[[bytes, bytes], float]]:
    page = browser.new_page()
    yield lambda a, b: page.evaluate(COMPARE, [b64encode(a).decode(), b64encode(b).decode()])
    page.close()


@pytest.mark.parametrize("name", LOOKS)
def test_it_looks_as_it_did(open_page: Open, difference: Callable[[bytes, bytes], float], name: str) -> None:
    """ACCLC_UPDATE_GOLDEN=1 writes the pictures anew; look at them before they are committed."""
    make, asked, scheme = LOOKS[name]
    page = open_page(make(), asked, scheme)
    shot = page.locator("#stage").screenshot()
    golden = GOLDEN / f"{name}.png"
    if os.environ.get("ACCLC_UPDATE_GOLDEN"):
        golden.write_bytes(shot)
    same_font = abs(page.evaluate(FONT) - FONT_WIDTH) < 1
    assert difference(shot, golden.read_bytes()) < (TOLERANCE if same_font else OTHER_FONT_TOLERANCE)
    page.locator("#time").fill("990")
    assert difference(page.locator("#stage").screenshot(), shot) > TOLERANCE  # what is otherwise is seen


def test_times_that_are_measured_stand_beside_those_simulated(open_page: Open) -> None:
    problem, schedule = ring_all_gather(4)
    view = with_programs(view_of((problem, schedule)))
    first = view.collectives[0]
    measured = replace(even_times(schedule, 999), measured=True)
    variant = replace(first.variants[0], times=(*first.variants[0].times, measured))
    page = open_page(replace(view, collectives=(replace(first, variants=(variant,)),)), "#size=1")
    assert page.locator(".time .name").all_inner_texts() == ["bound", "c1s3r3", "c1s3r3, measured", "ring", "tree"]
    page.locator("#size").select_option("2")
    page.locator("#time").fill("1000")
    assert status(page).endswith("measured")

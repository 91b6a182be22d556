"""Draw docs/images/page.png: the page of the DGX-1 example, as README shows it.

    python scripts/page_picture.py PAGE.html

PAGE.html is what `acclc show build/dgx1` wrote. Needs the `dev` extra and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

MOMENT = "#collective=all_gather&time=0.35&theme=light"
TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "page.png"


def main(page: Path) -> None:
    """Open the page at a fixed moment and take its picture."""
    from playwright.sync_api import sync_playwright

    chromium = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if chromium is None:
        sys.exit("chromium is not on PATH")
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1440, "height": 860})
        view.goto(page.resolve().as_uri() + MOMENT)
        view.wait_for_selector("html[data-ready]")
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        view.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

"""What every file means, one line a file (see importer_tools.meaning): written once, read, and kept.

ACCLC_UPDATE_GOLDEN=1 writes meanings_fixtures.txt anew; meanings_extra.txt is for the files of ACCLC_EXTRA_INPUTS.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def table(name: str) -> dict[str, str]:
    """Return file -> meaning."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


FIXTURES = table("meanings_fixtures.txt")
"""The files of this project, tests/fixtures/importers."""
EXTRA = table("meanings_extra.txt")
"""Real files that are not part of the project; a folder of them is named by ACCLC_EXTRA_INPUTS."""

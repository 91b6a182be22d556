"""What the tests of running programs share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache of compiled kernels for the whole run, and none of the user's."""
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    before = os.environ.get("ACCLC_CACHE_DIR")
    os.environ["ACCLC_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["ACCLC_CACHE_DIR"]
    else:
        os.environ["ACCLC_CACHE_DIR"] = before

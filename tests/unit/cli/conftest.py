from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from acclc.cli import main_group
from acclc.cli.failures import run

RING = """
all_gather on ring(3) as gathered { goal latency }
all_reduce on ring(3) as summed { op sum, goal latency }
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Invoke = Callable[..., Done]


@pytest.fixture
def acclc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run the command line as ``acclc ARGUMENTS`` does, within this process."""
    monkeypatch.delenv("ACCLC_DEBUG", raising=False)

    def invoke(*arguments: object) -> Done:
        capsys.readouterr()
        words = [str(a) for a in arguments]
        code = run(lambda **how: main_group.main(words, **how))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Done(code, captured.out, captured.err)

    return invoke


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small artefact of two collectives. Read only: copy it to change it."""
    from acclc import compile_text

    folder = tmp_path_factory.mktemp("artefacts") / "small"
    return compile_text(RING, "small").save(folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "small.accl"
    path.write_text(RING)
    return path

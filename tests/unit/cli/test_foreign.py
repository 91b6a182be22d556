"""``acclc export``, and files of other engines on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "verify"))
from msccl_files import ring_text


@pytest.fixture
def artefact(acclc, tmp_path: Path) -> Path:  # type: ignore[no-untyped-def]
    source = tmp_path / "ring.accl"
    source.write_text("all_reduce on ring(3) as summed { op sum, goal latency }\nbroadcast on ring(3) as spread\n")
    assert acclc("compile", source, "-o", tmp_path / "ring", "--time-limit", "2").code == 0
    return tmp_path / "ring"


def test_a_whole_artefact_goes_to_a_folder(acclc, artefact: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for format_, ending in (("msccl-xml", "xml"), ("mscclpp", "json")):
        folder = tmp_path / format_
        done = acclc("export", artefact, "--to", format_, "-o", folder)
        assert done.code == 0, done.err
        files = sorted(folder.iterdir())
        assert len(files) >= 2
        assert {f.suffix for f in files} == {f".{ending}"}
        assert "spread is for root 0 only" in done.err
        for file in files:
            again = acclc("verify", file)
            assert again.code == 0, again.out + again.err
        refused = acclc("export", artefact, "--to", format_, "-o", folder)
        assert refused.code == 2
        assert "--force" in refused.err
        assert acclc("export", artefact, "--to", format_, "-o", folder, "--force").code == 0


def test_one_variant_goes_to_a_stream(acclc, artefact: Path) -> None:  # type: ignore[no-untyped-def]
    shown = acclc("export", artefact, "--to", "msccl-xml", "-o", "-", "--only", "summed/c1s1r1")
    assert shown.code == 0, shown.err
    assert shown.out.startswith('<algo name="acclc_summed_c1s1r1" proto="Simple"')
    assert 'inplace="1" outofplace="1"' in shown.out
    assert acclc("export", artefact, "--to", "msccl-xml", "-o", "-").code == 2
    sized = acclc("export", artefact, "--to", "msccl-xml", "-o", "-", "--only", "summed/c1s1r1", "--max-bytes", "64K")
    assert 'minBytes="0" maxBytes="65536"' in sized.out


def test_what_is_refused_names_the_limit_and_what_fits(acclc, artefact: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / "pairs.accl"
    source.write_text("send_recv on ring(3) as pairs { goal latency }\n")
    assert acclc("compile", source, "-o", tmp_path / "pairs", "--time-limit", "2").code == 0
    done = acclc("export", tmp_path / "pairs", "--to", "msccl-xml", "-o", "-")
    assert done.code == 1
    assert "MSCCL has no collective for send_recv" in done.err
    assert "fit" in done.err


def test_an_algorithm_of_others_is_verified_run_shown_and_simulated(acclc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "ring.xml"
    path.write_text(ring_text(3))
    checks = json.loads(acclc("verify", path, "--json").out)
    assert checks["verified"]
    run = acclc("run", path, "--backend", "numpy", "--size", "1KiB")
    assert run.code == 0, run.err
    assert "all right" in run.out
    assert acclc("show", path, "-o", tmp_path / "page.html").code == 0
    assert acclc("simulate", path).code == 2
    times = acclc("simulate", path, "--topology", "ring(3)", "--json")
    assert times.code == 0, times.err
    assert json.loads(times.out)["rows"]


def test_a_wrong_algorithm_fails(acclc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "ring.xml"
    path.write_text(ring_text(3).replace('type="rrc"', 'type="r"', 1))
    done = acclc("verify", path)
    assert done.code == 1
    assert "NOT verified" in done.out
    path.write_text("<algo>")
    assert acclc("verify", path).code == 1


def test_an_engine_is_only_an_error_where_it_is_asked_for(acclc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "old.xml"
    path.write_text(ring_text(3, ""))
    assert acclc("verify", path).code == 0
    assert acclc("verify", path, "--target", "msccl").code == 0
    done = acclc("verify", path, "--target", "rccl")
    assert done.code == 1
    assert "minBytes" in done.err

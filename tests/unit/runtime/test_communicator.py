from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import KINDS
from handmade import Made, collective, custom, direct_artefact, direct_program, write_artefact

import acclc_runtime as rt
from acclc_runtime.backends import registry
from acclc_runtime.backends.base import Call
from acclc_runtime.errors import ArgumentError, BackendUnavailableError
from acclc_runtime.manifest import ManifestShard, manifest_bytes
from acclc_runtime.reference import check, random_inputs

RANKS = (0, 2, 5)


@pytest.fixture
def group(everything: Path) -> Iterator[rt.LocalGroup]:
    with rt.load(everything).local("numpy") as g:
        yield g


def values(*columns: Any) -> list[Any]:
    return [np.array(c, np.int64) for c in columns]


def lists(outs: list[Any]) -> list[Any]:
    return [None if x is None else x.tolist() for x in outs]


def test_every_collective_by_its_method(group: rt.LocalGroup) -> None:
    xs = values([1, 2, 3], [10, 20, 30], [100, 200, 300])
    assert lists(group.all_reduce(xs)) == [[111, 222, 333]] * 3
    assert lists(group.all_reduce(xs, "max")) == [[100, 200, 300]] * 3
    assert lists(group.all_gather(xs)) == [[1, 2, 3, 10, 20, 30, 100, 200, 300]] * 3
    assert lists(group.reduce_scatter(xs)) == [[111], [222], [333]]
    assert lists(group.broadcast([None, xs[1], None])) == [[10, 20, 30]] * 3
    assert lists(group.reduce(xs)) == [None, [111, 222, 333], None]
    assert lists(group.gather(xs)) == [None, [1, 2, 3, 10, 20, 30, 100, 200, 300], None]
    assert lists(group.scatter([None, xs[1], None])) == [[10], [20], [30]]
    assert lists(group.all_to_all(xs)) == [[1, 10, 100], [2, 20, 200], [3, 30, 300]]
    assert lists(group.send_recv(xs)) == [[100, 200, 300], [1, 2, 3], [10, 20, 30]]
    assert lists(xs) == [[1, 2, 3], [10, 20, 30], [100, 200, 300]]


def test_the_signatures_are_those_of_the_contract() -> None:
    def names(method: Any) -> list[str]:
        return list(inspect.signature(method).parameters)[1:4]

    assert names(rt.LocalGroup.all_reduce) == ["xs", "op", "outs"]
    assert names(rt.LocalGroup.reduce_scatter) == ["xs", "op", "outs"]
    assert names(rt.LocalGroup.all_gather)[:2] == ["xs", "outs"]
    assert names(rt.LocalGroup.all_to_all)[:2] == ["xs", "outs"]
    assert names(rt.LocalGroup.broadcast) == ["xs", "root", "outs"]
    assert names(rt.LocalGroup.collective) == ["name", "inputs", "outputs"]


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("all_to_all", "send_recv")])
def test_in_place(everything: Path, kind: str) -> None:
    artefact = rt.load(everything)
    c = next(c for c in artefact.manifest.collectives if c.name == kind)
    count, op = 50, "sum" if c.reduces else None
    inputs = random_inputs(c, count, "f32", 4, op=op)
    xs, outs = [], []
    for position, pristine in enumerate(inputs):
        both = bool(c.input_units[position] and c.output_units[position])
        out = np.zeros(c.output_units[position] * count, np.float32)
        x = None if pristine is None else pristine.copy()
        if both and c.in_place == "same":
            out = x
        elif both and c.in_place == "input_in_output":
            x = rt.in_place_view(out, position, count)
            x[:] = pristine
        elif both and c.in_place == "output_in_input":
            out = rt.in_place_view(x, position, count)
        xs.append(x)
        outs.append(out)
    calls: list[Call] = []
    with artefact.local("numpy") as g:
        run = g._backend.run
        g._backend.run = lambda call: (calls.append(call), run(call))  # type: ignore[method-assign, func-returns-value, assignment]
        results = g.collective(kind, xs, outs, op)
    assert calls[0].in_place
    assert check(c, inputs, outs, count, "f32", op).wrong == 0
    assert all(r is o for r, o, u in zip(results, outs, c.output_units, strict=True) if u)


def test_shapes_follow_the_inputs(group: rt.LocalGroup) -> None:
    xs = [np.zeros((6, 2), np.float32) for _ in RANKS]
    assert [x.shape for x in group.all_reduce(xs)] == [(6, 2)] * 3
    assert [x.shape for x in group.all_gather(xs)] == [(18, 2)] * 3
    assert [x.shape for x in group.reduce_scatter(xs)] == [(2, 2)] * 3
    assert [x.shape for x in group.broadcast([None, xs[1], None])] == [(6, 2)] * 3
    assert [x.shape for x in group.scatter([None, xs[1], None])] == [(2, 2)] * 3
    assert [x.shape for x in group.reduce_scatter([np.zeros((2, 3)) for _ in RANKS])] == [(2,)] * 3
    assert [x.shape for x in group.all_gather([np.zeros(()) for _ in RANKS])] == [(3,)] * 3
    assert group.all_gather(xs)[0].dtype == np.float32


def test_given_outputs_are_filled_and_returned(group: rt.LocalGroup) -> None:
    outs = [np.zeros((2, 3), np.int64) for _ in RANKS]
    results = group.all_gather(values([1, 2], [3, 4], [5, 6]), outs)
    assert all(r is o for r, o in zip(results, outs, strict=True))
    assert outs[2].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_what_a_rank_does_not_need_is_ignored(group: rt.LocalGroup) -> None:
    tensors = values([0, 0], [7, 8], [0, 0])
    results = group.broadcast(tensors, outs=tensors)  # as torch writes it: one tensor a rank
    assert lists(tensors) == [[7, 8]] * 3
    assert results[0] is tensors[0]
    sums = group.reduce(values([1], [2], [3]), outs=["no", np.zeros(1, np.int64), object()])
    assert sums[0] is None
    assert sums[1].tolist() == [6]


def test_a_root_is_checked_and_chooses(tmp_path: Path) -> None:
    first, other = collective("broadcast", RANKS, 0, "from0"), collective("broadcast", RANKS, 5, "from5")
    with rt.load(direct_artefact(tmp_path / "roots", first, other)).local("numpy") as g:
        xs = values([1], [2], [3])
        assert lists(g.broadcast(xs)) == [[1]] * 3
        assert lists(g.broadcast(xs, root=5)) == [[3]] * 3
        assert lists(g.collective("from5", xs)) == [[3]] * 3
        with pytest.raises(
            ArgumentError, match=r"no broadcast from or to root 2; it has: from0 \(root 0\), from5 \(root 5\)"
        ):
            g.broadcast(xs, root=2)
        with pytest.raises(
            ArgumentError, match=r"^roots has no all_reduce; it has: from0 \(broadcast\), from5 \(broadcast\)"
        ):
            g.all_reduce(xs)


def test_custom_and_several_together(tmp_path: Path) -> None:
    halo = custom(
        "halo", tuple(ManifestShard(((r, 0),), (((r + 1) % 3, 0), ((r + 2) % 3, 1)), False) for r in range(3)), range(3)
    )
    pairs = custom(
        "pairs",
        (
            ManifestShard(((0, 0), (1, 0)), ((0, 0), (1, 0)), True),
            ManifestShard(((2, 0), (3, 0)), ((2, 0), (3, 0)), True),
        ),
        range(4),
    )
    together = replace(pairs, collective="together", op="max")
    with rt.load(direct_artefact(tmp_path / "mixed", halo, together)).local("numpy") as g:
        assert lists(g.collective("halo", inputs=values([1], [2], [3]))) == [[3, 2], [1, 3], [2, 1]]
        xs = values([1], [2], [3], [4])
        assert lists(g.collective("pairs", xs)) == [[2], [2], [4], [4]]  # the operator that the source names
        assert lists(g.collective("pairs", xs, op="sum")) == [[3], [3], [7], [7]]
        assert lists(g.collective("pairs", xs, op="avg")) == [[1], [1], [3], [3]]


def test_count_zero_returns_at_once(group: rt.LocalGroup) -> None:
    group._backend.run = None  # type: ignore[method-assign, assignment]
    outs = group.all_gather([np.zeros((0, 4), np.float32)] * 3)
    assert [x.shape for x in outs] == [(0, 4)] * 3
    with pytest.raises(ArgumentError, match="no operator 'xor'"):
        group.all_reduce([np.zeros(0)] * 3, op="xor")


def test_the_size_chooses_the_variant(ring: Path) -> None:
    used: list[str] = []
    with rt.load(ring).local("numpy") as g:
        run = g._backend.run
        g._backend.run = lambda call: (used.append(call.variant.id), run(call))  # type: ignore[method-assign, func-returns-value, assignment]
        for count, name in ((255, None), (256, None), (256, "direct"), (1, "ring")):
            g.all_reduce([np.ones(count, np.float32) for _ in range(3)], variant=name)
        assert used == ["direct", "ring", "direct", "ring"]
        assert g.choice("all_reduce", 1024)[0].id == "ring"


def test_describe(ring: Path) -> None:
    artefact = rt.load(ring)
    assert artefact.describe().splitlines() == [
        "ring3, compiled by acclc 0.0.0",
        "all_reduce: all_reduce of 3 ranks on full",
        "  bound: by hand",
        "  direct: by_hand, chunks 1, steps 1, rounds 1, channels 1: for 0 B to less than 1 KiB",
        "  ring: by_hand, chunks 1, steps 1, rounds 1, channels 1: for 1 KiB and more",
    ]
    with artefact.local("numpy", timeout_s=5) as g:
        lines = g.describe(4096).splitlines()
        assert lines[0].startswith("ring3 on numpy: NumPy ")
        assert lines[1:] == [
            "a wait without progress ends after 5 s",
            "all_reduce, 4 KiB: variant ring (by_hand): best for 1 KiB and more",
        ]


def test_describe_says_which_of_several_a_method_runs(tmp_path: Path) -> None:
    artefact = rt.load(
        direct_artefact(tmp_path / "two", collective("all_reduce"), collective("all_reduce", name="gradients"))
    )
    assert "  g.all_reduce runs all_reduce; run this one by g.collective('gradients', ...)" in artefact.describe()
    irreproducible = replace(artefact.manifest, reproducible=False)
    assert (
        rt.Artefact(artefact.folder, irreproducible)
        .describe()
        .startswith("two, compiled by acclc 0.0.0 (not reproducible)\n")
    )


def test_the_artefact_has_the_collectives_as_functions(ring: Path) -> None:
    m = rt.load(str(ring))
    with m.local("numpy") as g:
        xs = [np.ones(4, np.float32) for _ in range(3)]
        outs = [np.zeros(4, np.float32) for _ in range(3)]
        assert m.all_reduce(g, xs, op="sum")[0].tolist() == [3.0] * 4
        assert m.all_reduce(g, inputs=xs, outputs=outs, variant="ring")[2] is outs[2]
        assert m.all_reduce(g, xs, outs=outs)[1] is outs[1]
    assert "all_reduce" in dir(m)
    assert m.manifest.name == "ring3"
    assert repr(m.all_reduce) == "<collective all_reduce>"
    assert repr(m) == "<acclc artefact ring3: all_reduce>"
    with pytest.raises(AttributeError, match="artefact has no 'all_gather'; its collectives are: all_reduce"):
        m.all_gather


def test_calls_of_several_threads_run_one_after_the_other(ring: Path) -> None:
    active, overlaps = [], []
    with rt.load(ring).local("numpy") as g:
        run = g._backend.run

        def counted(call: Call) -> None:
            active.append(1)
            overlaps.append(len(active))
            run(call)
            active.pop()

        g._backend.run = counted  # type: ignore[method-assign]
        results: list[Any] = [None] * 4

        def work(i: int) -> None:
            results[i] = g.all_reduce([np.full(500, i, np.float32) for _ in range(3)])[0]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert overlaps == [1] * 4
    assert [float(r[499]) for r in results] == [0.0, 3.0, 6.0, 9.0]


# Backends and the environment.


class NoCompiler:
    """A cpu backend where nothing can be built."""

    def __init__(self, artefact: Path, **options: object) -> None:
        raise BackendUnavailableError("no C++ compiler found; install g++")


def test_without_a_compiler_numpy_takes_over_and_says_so(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BACKENDS, "cpu", NoCompiler)
    text = (
        "the cpu backend cannot run here (no C++ compiler found; install g++); "
        "the numpy backend runs instead, much slower"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(text)) as warned:
        group = rt.load(ring).local()
    with group as g:
        assert g.backend == "numpy"
        assert g.all_reduce([np.ones(3), np.ones(3), np.ones(3)])[0].tolist() == [3.0] * 3
        assert f"note: {text}" in g.describe().splitlines()
    assert warned[0].filename == __file__


@pytest.mark.parametrize("options", [{"fallback": False}, {"mode": "fibres"}, {"fallback": False, "threads": 2}])
def test_explicit_options_decide(ring: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setitem(registry.BACKENDS, "cpu", NoCompiler)
    with pytest.raises(BackendUnavailableError, match="no C\\+\\+ compiler found"):
        rt.load(ring).local("cpu", **options)


def test_a_fallback_can_be_asked_for_with_options(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BACKENDS, "cpu", NoCompiler)
    with pytest.warns(RuntimeWarning), rt.load(ring).local("cpu", fallback=True, mode="fibres") as g:
        assert g.backend == "numpy"


def test_other_backends_never_fall_back(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BACKENDS, "cuda", NoCompiler)
    with pytest.raises(BackendUnavailableError):
        rt.load(ring).local("cuda")
    with pytest.raises(ArgumentError, match="no backend 'tpu'; there are cpu, cuda, numpy"):
        rt.load(ring).local("tpu")


def test_the_timeout(ring: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def seen(**options: Any) -> float:
        calls: list[Call] = []
        with rt.load(ring).local("numpy", **options) as g:
            g._backend.run = calls.append  # type: ignore[method-assign]
            g.all_reduce([np.ones(3), np.ones(3), np.ones(3)])
        return calls[0].timeout_s

    monkeypatch.delenv("ACCLC_TIMEOUT", raising=False)
    assert seen() == 60.0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("ACCLC_TIMEOUT", "2.5")
    assert seen() == 2.5
    assert capsys.readouterr().err == "acclc: ACCLC_TIMEOUT: a wait without progress ends after 2.5 s\n"
    assert seen(timeout_s=9) == 9.0
    for text in ("soon", "-1", "inf", "nan", "0"):
        monkeypatch.setenv("ACCLC_TIMEOUT", text)
        with pytest.raises(ArgumentError, match=f"^ACCLC_TIMEOUT='{text}' is no positive number of seconds$"):
            seen()


def test_debug_says_what_runs_and_why_once(
    ring: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACCLC_DEBUG", "info")
    with rt.load(ring).local("numpy") as g:
        for _ in range(2):
            g.all_reduce([np.ones(3, np.float32) for _ in range(3)])
        g.all_reduce([np.ones(3, np.float32) for _ in range(3)], "max", variant="ring")
    assert capsys.readouterr().err.splitlines() == [
        "acclc: all_reduce: 12 B of f32 sum, out of place: variant direct on the numpy backend: "
        "best for 0 B to less than 1 KiB",
        "acclc: all_reduce: 12 B of f32 max, out of place: variant ring on the numpy backend: the call names it",
    ]
    monkeypatch.setenv("ACCLC_DEBUG", "trace")
    with pytest.raises(ArgumentError, match=r"^ACCLC_DEBUG='trace' is not known; it can be info$"):
        rt.load(ring).local("numpy")


# Loading.


def test_what_is_no_artefact(tmp_path: Path) -> None:
    with pytest.raises(rt.DamagedFileError, match=r"is no artefact: it has no manifest\.json"):
        rt.load(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"{}")
    with pytest.raises(rt.DamagedFileError, match="not a file of format 'acclc-manifest'"):
        rt.load(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b'{"format": "acclc-manifest", "version": 99, "value": 1}')
    with pytest.raises(rt.DamagedFileError, match="has version 99; this acclc reads version 2"):
        rt.load(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(rt.DamagedFileError, match="not valid JSON"):
        rt.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ranks": (0, 1, 1)}, "its ranks are none, or listed twice"),
        ({"positions": (0, 1)}, "positions has 2 entries for 3 ranks"),
        ({"input_units": (1, 1)}, "input_units has 2 entries for 3 ranks"),
        ({"output_units": (1, 1, -1)}, "a negative number of units, contributors or counts of the size"),
        ({"shards": (ManifestShard(((0, 0),), ((0, 1),), False),)}, "a shard lies outside the buffers"),
        ({"shards": (ManifestShard(((9, 0),), (), False),)}, "a shard lies outside the buffers"),
        ({"variants": ()}, "its variants are none, or two have the same id"),
        ({"output_units": (1, 2**40, 1)}, "a buffer is longer than what lies in it"),
        ({"input_units": (2, 1, 1)}, "a buffer is longer than what lies in it"),
    ],
)
def test_inconsistent_manifests_are_refused(ring: Path, changes: dict[str, Any], text: str) -> None:
    manifest = rt.load(ring).manifest
    changed = replace(manifest, collectives=(replace(manifest.collectives[0], **changes),))
    (ring / "manifest.json").write_bytes(manifest_bytes(changed))
    with pytest.raises(rt.DamagedFileError, match=f"manifest.json: collective 'all_reduce': {re.escape(text)}$"):
        rt.load(ring)


@pytest.mark.parametrize("folder", ["../elsewhere", "/etc", "a/../../b", "", "a\\..\\b", "a\0b"])
def test_variants_never_lie_outside_the_artefact(ring: Path, folder: str) -> None:
    manifest = rt.load(ring).manifest
    c = manifest.collectives[0]
    changed = replace(c, variants=(replace(c.variants[0], folder=folder), c.variants[1]))
    (ring / "manifest.json").write_bytes(manifest_bytes(replace(manifest, collectives=(changed,))))
    with pytest.raises(rt.DamagedFileError, match="is not inside the artefact"):
        rt.load(ring)


def test_names_and_topologies_must_fit(ring: Path) -> None:
    manifest = rt.load(ring).manifest
    for changed, text in (
        (replace(manifest, collectives=manifest.collectives * 2, topologies=manifest.topologies * 2), "same name"),
        (replace(manifest, topologies=()), "0 topologies for 1 collectives"),
    ):
        (ring / "manifest.json").write_bytes(manifest_bytes(changed))
        with pytest.raises(rt.DamagedFileError, match=text):
            rt.load(ring)


def test_an_artefact_of_one_rank(tmp_path: Path) -> None:
    c = collective("all_reduce", (0,))
    path = write_artefact(tmp_path / "alone", [(c, [Made("only", direct_program(c))])])
    with rt.load(path).local("numpy") as g:
        for op in ("sum", "avg"):
            assert g.all_reduce(values([1, 2, 3]), op)[0].tolist() == [1, 2, 3]


def test_the_backend_says_on_which_device_each_rank_runs(everything: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rt.load(everything).local("numpy") as g:
        assert g.devices("all_reduce") is None
        monkeypatch.setattr(g._backend, "devices", lambda c: range(len(c.ranks)), raising=False)
        assert g.devices("all_reduce") == [0, 1, 2]
        with pytest.raises(ArgumentError, match="no collective 'halo'"):
            g.devices("halo")


def test_two_variants_never_share_a_folder(ring: Path) -> None:
    """Kernels and memory are kept by folder: one would run on the other's."""
    manifest = rt.load(ring).manifest
    c = manifest.collectives[0]
    changed = replace(c, variants=(c.variants[0], replace(c.variants[1], folder=c.variants[0].folder)))
    (ring / "manifest.json").write_bytes(manifest_bytes(replace(manifest, collectives=(changed,))))
    with pytest.raises(rt.DamagedFileError, match="two variants lie in the same folder"):
        rt.load(ring)


def test_a_folder_that_is_a_link_to_elsewhere_is_not_read(ring: Path, tmp_path: Path) -> None:
    loaded = rt.load(ring)
    c = loaded.manifest.collectives[0]
    home, elsewhere = ring / c.variants[0].folder, tmp_path / "elsewhere"
    home.rename(elsewhere)
    home.symlink_to(elsewhere)
    xs = [np.ones(4, np.float32) for _ in c.ranks]
    with loaded.local("numpy") as group, pytest.raises(rt.DamagedFileError, match="lies outside the artefact"):
        group.collective(c.name, xs, variant=c.variants[0].id)

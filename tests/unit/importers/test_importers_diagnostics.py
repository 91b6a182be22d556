"""What is said of damaged, missing, contradictory and impossible files: the words, and the place."""

from __future__ import annotations

import pytest
from importer_tools import FIXTURES as FOLDER
from meanings import FIXTURES

from acclc.diagnostics import CATALOGUE, DiagnosticError, render
from acclc.diagnostics.catalogue_import import IMPORT_CODES
from acclc.importers import Settings, import_machine, source_of
from acclc.importers.join import join_text
from acclc.sema import topology_named
from acclc.source import Source


def said(data: bytes | str, *settings: str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    try:
        return render(import_machine(source_of(raw, "file"), settings).warnings)
    except DiagnosticError as error:
        return render(error.diagnostics)


def of(name: str) -> str:
    return said((FOLDER / name).read_bytes())


def test_two_cells_that_differ_are_both_shown() -> None:
    assert of("bad-topo-m-asymmetric-cell.txt") == (
        "error[import-contradiction]: GPU0 to GPU2 is NV2, but GPU2 to GPU0 is NV1\n"
        "  --> file:2:14\n"
        "   |\n"
        " 2 | GPU0     X  NV1 NV2\n"
        "   |                 ^^^ this\n"
        " ...\n"
        " 4 | GPU2    NV1 NV1  X\n"
        "   |         --- and this cannot both be true\n"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bad-topo-m-cell.txt", ["`PX8` is no class of a path", "GPU0 to GPU1", "did you mean `PXB`?"]),
        ("bad-topo-m-lost-rows.txt", ["no row for `GPU2`, `GPU3`", "file:3:1", "paste the whole matrix"]),
        ("bad-topo-m-lost-cells.txt", ["no cell says how GPU1 and GPU2 are joined", "1 of 3 cells"]),
        ("bad-topo-m-shifted.txt", ["`X` from GPU1 to GPU0", "is a cell missing before it?"]),
        ("bad-topo-m-paths.txt", ["GPU0 and GPU2 are SYS, but other cells put them under one PCIe switch"]),
        ("bad-rocm-smi-half.txt", ["`Link Type between two GPUs` is not in this text"]),
        ("bad-nccl-breaks-off.xml", ["not well-formed XML: unclosed token", "in this element"]),
        ("bad-nccl-entities.xml", ["a document type (`<!DOCTYPE`), which no topology needs"]),
        ("bad-nccl-graph-dump.xml", ["NCCL's graph dump", "NCCL_TOPO_DUMP_FILE=topo.xml"]),
        ("bad-nccl-no-class.xml", ["0000:00:16.0 (and 1 more) has no attribute `class`", 'class="0x030200" to GPUs']),
        ("bad-nccl-values.xml", ["`none` is no number of links", "file:5:46"]),
        ("bad-msccl-algorithm.xml", ["an MSCCL algorithm, which is a schedule"]),
        ("bad-mscclpp-plan.json", ["an execution plan of MSCCL++, which is a schedule"]),
        ("bad-htsim.topo", ["htsim"]),
        ("bad-ns3-logical.json", ["ns-3 back end"]),
        ("bad-own-language.txt", ["in the language of acclc already", "`acclc topo show FILE`"]),
        ("bad-empty.txt", ["the file is empty"]),
        ("bad-prose.txt", ["the format of this file is not known", "--format"]),
        ("bad-json-breaks-off.json", ["not well-formed JSON", "file:4:1"]),
        ("bad-json-other.json", ["the keys of this JSON are those of no known format"]),
        ("bad-msccl-tools-row.json", ['`links[1][1]` is "0": a number from 0 is needed']),
        ("bad-taccl-no-links.json", ["the link matrix of `Mine_1MB` is not in the file", "add `links`"]),
        ("bad-taccl-no-size.json", ["nothing says how large it is", "size=1 MB"]),
        ("bad-taccl-sketch-alone.json", ["does not say how the GPUs of a box are joined", "--with TOPOLOGY"]),
        ("bad-teccl-name.json", ["TE-CCL has no topology `DGX-2`", "did you mean `DGX2`?"]),
        ("bad-astra-tbd.yml", ["`tbd` is not a bandwidth in GB/s", "file:3:19", "had not measured it yet"]),
        ("bad-astra-lengths.yml", ["3 values of `npus_count` for 2 dimensions"]),
        ("bad-astra-shape.yml", ["`Rings` is no dimension", "did you mean `Ring`?"]),
        ("bad-astra-missing.yml", ["`latency` is missing"]),
        ("topo-m-impossible.txt", ["no such machine can be built", "GPU1 sum to 36", "no GPU has more than 18"]),
        ("topo-m-several.txt", ["2 different matrices", "--set matrix=2"]),
        ("topo-m-numa-against-paths.txt", ["GPU0 and GPU1 are SYS though both are on NUMA 0 (and 1 more pairs)"]),
        ("topo-p2p-refused.txt", ["no peer access from GPU0 to GPU2: chipset not supported, and 3 more"]),
        ("nccl-vm-hints.xml", ["hints for a virtual machine", "import the output of `nvidia-smi topo -m`"]),
        ("nccl-two-hosts-c2c.xml", ["GPU0 has 16 links to the switch, most others 18"]),
        ("nccl-dump-mesh.xml", ["GPU0 has 1 links to GPU2, but GPU2 has 2 to GPU0; 1 were taken", "0000:99:00.0"]),
    ],
)
def test_what_is_said(name: str, words: list[str]) -> None:
    text = of(name)
    for word in words:
        assert word in text, text


def test_every_bad_fixture_is_said_something_of_above() -> None:
    cases = {case[0] for case in test_what_is_said.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert {n for n in FIXTURES if n.startswith("bad-")} <= cases | {"bad-topo-m-asymmetric-cell.txt"}


MANY = "topology: [ FullyConnected ]\nnpus_count: [ 4000 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n"


def test_machines_too_large_to_be_written_out_are_refused() -> None:
    assert "error[import-too-large]: too many NPUs or links" in said(MANY)
    assert "error[import-too-large]" in said("topology: [Ring]\nnpus_count: [70000]\nbandwidth: [1]\nlatency: [1]\n")
    with pytest.raises(DiagnosticError, match="larger than 64 MiB"):
        source_of(b" " * (64 * 2**20 + 1), "big")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("nvlink", "not of the form NAME=VALUE"),
        ("nvlnk=3", "did you mean `nvlink`?"),
        ("nvlink=fast", "a rate such as `22 GB/s`"),
        ("nvlink=0", "a rate such as `22 GB/s`"),
        ("nvlink=3 GB", "a rate such as `22 GB/s`"),
        ("gpu=h1000", "did you mean `h100`?"),
        ("matrix=0", "a whole number from 1 to 1 is needed"),
        ("xgmi=3", "warning[import-setting]: nothing in this file takes the setting `xgmi`"),
    ],
)
def test_settings_that_mean_nothing(setting: str, words: str) -> None:
    assert words in said((FOLDER / "topo-m-dgx1-relabelled.txt").read_bytes(), setting)


def test_settings_of_taccl() -> None:
    data = (FOLDER / "bad-taccl-no-size.json").read_bytes()
    assert said(data, "size=2 MB") == ""
    assert "a size such as `1 MB` is needed" in said(data, "size=2 parsecs")
    assert "a number is needed" in said(data, "scale=x")
    scaled = (FOLDER / "taccl-topo-dgx2-scaled.json").read_bytes()
    one = import_machine(source_of(scaled, "x"), ("scale=1",))
    hundred = import_machine(source_of(scaled, "x"))
    assert one.classes[0].rate * 100 == hundred.classes[0].rate
    assert one.classes[0].latency == hundred.classes[0].latency * 100


def test_every_code_is_drawn_by_some_input() -> None:
    texts = "".join(of(name) for name in FIXTURES) + said(MANY)
    drawn = {code for code in CATALOGUE if f"[{code}]" in texts}
    with pytest.raises(DiagnosticError) as setting:
        Settings(("nothing",))
    with pytest.raises(DiagnosticError) as join:
        join_text(topology_named("ring(4)"), "x.accl", 1, "rail")
    drawn |= {setting.value.diagnostics[0].code, join.value.diagnostics[0].code}
    assert {entry.code for entry in IMPORT_CODES} <= drawn


def test_nothing_of_a_document_type_is_expanded() -> None:
    bomb = "<!DOCTYPE x [" + "".join(f'<!ENTITY e{i + 1} "&e{i};&e{i};">' for i in range(60)) + "]><x>&e60;</x>"
    assert "import-damaged" in said(bomb)
    deep = "<system>" + "<cpu>" * 100_000
    assert "nested more than 64 deep" in said(deep)
    assert "import-" in said('{"links": ' + "[" * 100_000)


def test_a_place_is_found_in_a_text_that_is_not_ascii() -> None:
    xml = '<system version="1"><!-- é µ 漢 --><cpu>'
    xml += '<pci busid="é" class="0x030200"><gpu sm="80"><nvlink count="x"/></gpu></pci></cpu></system>'
    with pytest.raises(DiagnosticError) as caught:
        import_machine(Source("x", xml))
    (found,) = caught.value.diagnostics
    span = found.labels[0].span
    assert xml[span.start : span.end] == "x"


def xml(*pcis: str, cpu: str = "") -> str:
    return f'<system version="1"><cpu arch="x86_64" {cpu}>' + "".join(pcis) + "</cpu></system>"


def gpu(bus: str, *links: str, rank: int = 0) -> str:
    return f'<pci busid="{bus}" class="0x030200"><gpu sm="80" rank="{rank}">{"".join(links)}</gpu></pci>'


def nvlink(target: str, count: int = 4, kind: str = "0x030200") -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{kind}"/>'


def test_contradictions_of_xml() -> None:
    one, two = "0000:01:00.0", "0000:02:00.0"
    assert "two GPUs at 0000:01:00" in said(xml(gpu(one), gpu(one)))
    assert "a link from a GPU to itself" in said(xml(gpu(one, nvlink(one)), gpu(two)))
    assert "GPU0 has 4 links to GPU1, but GPU1 has none to GPU0" in said(xml(gpu(one, nvlink(two)), gpu(two, rank=1)))
    assert "two GPUs of rank 0" in said(xml(gpu(one), gpu(two)))
    assert "GPU0 has 13 NVLinks, and A100 (NVLink 3) has 12" in said(
        xml(gpu(one, nvlink(two, 13)), gpu(two, nvlink(one, 13), rank=1))
    )
    odd = xml(gpu(one, nvlink("x", 12, "0x068000")), gpu(two, rank=1))
    assert "GPU1 has no link to the switch, most others have" in said(odd)
    assert "links to 0000:01:10.0, a GPU that is not in the file, were left out" in said(
        xml(gpu(two, nvlink("0000:01:10.0")), gpu(one, rank=1))
    )


def test_hidden_switches_and_equal_bus_ids_of_two_hosts() -> None:
    switched = [gpu(f"0000:0{i}:00.0", nvlink(target, 12, "")) for i, target in enumerate(("-1", "fffffff:ff:ff.0"))]
    imported = import_machine(Source("x", xml(*switched)))
    assert [x.count for x in imported.links if x.cls == "nvlink"] == [12, 12]
    pair = [gpu("0000:01:00.0", nvlink("0000:02:00.0")), gpu("0000:02:00.0", nvlink("0000:01:00.0"))]
    hosts = "".join(f'<cpu host_hash="0x{h}" arch="x86_64">{"".join(pair)}</cpu>' for h in range(2))
    imported = import_machine(Source("x", f'<system version="1">{hosts}</system>'))
    assert [(x.a, x.b, x.count) for x in imported.links if x.cls == "nvlink"] == [(0, 1, 4), (2, 3, 4)]

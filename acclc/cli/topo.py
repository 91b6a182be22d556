"""``acclc topo``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from acclc.cli.common import artefact_argument, json_option, print_json, write_text
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE


@click.group("topo")
def command() -> None:
    """List, show, import, join, discover and measure topologies."""


@command.command("list")
def list_() -> int:
    """List the built-in topologies with the first line of what they say of themselves."""
    from acclc.library import names, source

    for name in names():
        first = source(name).line(1).removeprefix("#").strip()
        click.echo(f"{name:12} {first}")
    return OK


@command.command("show")
@click.argument("topology")
@click.option("--topology", "only", metavar="NAME", help="One of the topologies of a file.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a picture (SVG) of one topology.")
@click.option(
    "--machine",
    type=click.Path(path_type=Path),
    help="Write it for the runtime: what `machine=` and `acclc topo map` take.",
)
@click.option("--force", is_flag=True, help="Overwrite the output.")
@json_option
def show(topology: str, only: str | None, output: Path | None, machine: Path | None, force: bool, as_json: bool) -> int:
    """Show a built-in TOPOLOGY, such as dgx1 or "torus(4, 4)", or those of a file: a picture, facts, warnings."""
    from acclc import topologies

    found = topologies.load(topology)
    chosen = [t for t in found if only is None or t.name == only]
    if not chosen:
        have = ", ".join(t.name for t in found) or "none whose parameters all have a value"
        raise click.BadParameter(f"no topology {only!r} in {topology}; it has {have}", param_hint="--topology")
    if output is not None:
        _write(output, topologies.picture(chosen[-1]), force)
        if str(output) == "-":
            return OK
    if machine is not None:
        from acclc.artefact import manifest_topology
        from acclc_runtime.mapping import machine_bytes

        _write(machine, machine_bytes(manifest_topology(chosen[-1])).decode(), force)
    if as_json:
        print_json({"topologies": [topologies.to_dict(t) for t in chosen]})
    else:
        click.echo("\n".join(topologies.words(t) for t in chosen), nl=False)
    return OK


@command.command("map")
@artefact_argument
@click.argument("machine", required=False)
@json_option
def map_(artefact: Path, machine: str | None, as_json: bool) -> int:
    """Say which GPU of MACHINE plays each rank of ARTEFACT: its machine is looked for in that one.

    MACHINE is a topology of the library, a file of the language or of any format that is imported (the last topology of
    it), or a machine file; without one it is this machine, by NVML.
    """
    from acclc import topologies
    from acclc.artefact import manifest_topology
    from acclc_runtime import load
    from acclc_runtime.placement import Machine

    there: Machine = machine or "nvml"
    if machine is not None and not _is_machine_file(Path(machine)):
        found = topologies.load(machine)
        if not found:
            raise click.BadParameter(f"{machine} has no topology whose parameters all have a value")
        there = manifest_topology(found[-1])
    done = load(artefact).rank_map(there)
    if as_json:
        print_json(
            {
                "artefact": str(artefact),
                "wanted": done.wanted,
                "machine": done.machine,
                "how": done.how,
                "devices": list(done.devices),
                "names": list(done.names),
            }
        )
    else:
        click.echo(done.words())
    return OK


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="Where to write; - is standard output."
)
@click.option(
    "--format", "format_", default="auto", show_default=True, help="What FILE is, where that is not found out."
)
@click.option(
    "--set", "settings", multiple=True, metavar="N=V", help='A rate ("nvlink=22", GB/s), a latency, or gpu=h100.'
)
@click.option("--with", "with_", type=click.Path(path_type=Path), help="TACCL's topology, for a sketch of it.")
@click.option("--name", help="The name of the topology; by default that of FILE.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@json_option
def import_(
    file: Path,
    output: Path,
    format_: str,
    settings: tuple[str, ...],
    with_: Path | None,
    name: str | None,
    force: bool,
    as_json: bool,
) -> int:
    """Import a machine: `nvidia-smi topo -m`, NCCL's XML and others -> text of the language.

    Comments in it say what was read, concluded and assumed, and where.
    """
    from acclc.diagnostics import render
    from acclc.topologies import Import, import_file

    done = import_file(file, with_, Import(settings, format_, name))
    if as_json and str(output) == "-":
        print_json({"file": str(file), "ok": True, **done.summary(), "text": done.text})
        return OK
    _write(output, done.text, force)
    if as_json:
        print_json({"file": str(file), "ok": True, **done.summary(), "output": str(output)})
        return OK
    if done.imported.warnings:
        click.echo(render(done.imported.warnings), err=True, nl=False)
    if str(output) != "-":
        click.echo(f"{file}: {done.in_words()} -> {output}")
    return OK


@command.command("join")
@click.argument("box", type=click.Path(path_type=Path))
@click.option("--hosts", type=int, required=True, help="How many copies of the box.")
@click.option("--fabric", default="rail", show_default=True, help="rail: a switch for each card; switch: one for all.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="Where to write; - is standard output."
)
@click.option("--topology", "wanted", metavar="NAME", help="Which topology of BOX; by default its largest.")
@click.option("--set", "settings", multiple=True, metavar="N=V", help='Of the network: "net=25" (GB/s), "net=2 us".')
@click.option("--force", is_flag=True, help="Overwrite the output.")
def join(
    box: Path, hosts: int, fabric: str, output: Path, wanted: str | None, settings: tuple[str, ...], force: bool
) -> int:
    """Join copies of the topology of BOX.accl to a cluster, by their network cards."""
    from acclc.topologies import join_file

    beside = Path.cwd() if str(output) == "-" else output.resolve().parent
    target = os.path.relpath(box.resolve(), beside)
    text = join_file(box, Path(target).as_posix(), hosts, fabric, wanted, settings)
    _write(output, text, force)
    if str(output) != "-":
        click.echo(f"{hosts} x {box} -> {output}")
    return OK


@command.command("discover")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="Where to write; - is standard output."
)
@click.option("--set", "settings", multiple=True, metavar="N=V", help='A rate ("nvlink=22", GB/s) or a latency.')
@click.option("--name", default="this_machine", show_default=True, help="The name of the topology.")
@click.option("--cores", is_flag=True, help="The CPU cores, even where there are GPUs.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@json_option
def discover(output: Path, settings: tuple[str, ...], name: str, cores: bool, force: bool, as_json: bool) -> int:
    """Write this machine as text of the language: GPUs by NVML and sysfs; without any, the CPU cores."""
    from acclc.topologies import discover_here

    done = discover_here(settings, name, cores)
    if as_json and str(output) == "-":
        print_json({"ok": True, **done.summary(), "text": done.text})
        return OK
    _write(output, done.text, force)
    if as_json:
        print_json({"ok": True, **done.summary(), "output": str(output)})
    elif str(output) != "-":
        click.echo(f"{done.in_words()} -> {output}")
    return OK


@command.command("probe")
@click.option("--engine", type=click.Choice(["cpu", "mpi", "cupy"]), default="cpu", show_default=True)
@click.option("--ranks", type=click.IntRange(2, 64), help="cpu: how many processes. [one a core]")
@click.option("--size", type=SIZE, default="4MiB", show_default=True, help="Bytes of the largest message.")
@click.option("--repeats", type=click.IntRange(3, 10_000), default=12, show_default=True, help="Messages of each size.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="Where to write; - is standard output."
)
@click.option("--name", default="measured", show_default=True, help="The name of the topology.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@json_option
def probe(
    engine: str, ranks: int | None, size: int, repeats: int, output: Path, name: str, force: bool, as_json: bool
) -> int:
    """Measure latency and rate of every edge, alone and together, and write the machine as text of the language.

    cpu: between processes in shared memory. mpi: `mpiexec -n 8 acclc topo probe --engine mpi`. cupy: between GPUs.
    """
    from acclc.topologies import Probe, probe_here

    if size < 1024:
        raise click.BadParameter("messages of 1 KiB at least are needed to tell rate from latency", param_hint="--size")
    found = probe_here(Probe(engine, ranks, size, repeats), name)
    if found is None:
        return OK
    done, outliers = found
    if as_json and str(output) == "-":
        print_json({"ok": True, **done.summary(), "outliers": outliers, "text": done.text})
        return OK
    _write(output, done.text, force)
    if as_json:
        print_json({"ok": True, **done.summary(), "outliers": outliers, "output": str(output)})
        return OK
    for words in outliers:
        click.echo(f"outlier: {words}", err=True)
    if str(output) != "-":
        click.echo(f"{done.in_words()} -> {output}; `acclc topo show {output} -o machine.svg` draws it")
    return OK


def _is_machine_file(path: Path) -> bool:
    from acclc_runtime.mapping import MACHINE_FORMAT

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return MACHINE_FORMAT.encode() in file.read(100)


def _write(output: Path, text: str, force: bool) -> None:
    if str(output) != "-" and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    write_text(output, text)

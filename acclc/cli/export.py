"""``acclc export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from acclc.cli.common import artefact_argument, json_option, only_option, print_json, select, write_text
from acclc.cli.failures import FAULT, OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from acclc.artefact import CompiledCollective, Variant


@click.command("export")
@artefact_argument
@click.option("--to", "format_", type=click.Choice(["msccl-xml", "mscclpp"]), required=True, help="The format.")
@click.option(
    "--target",
    type=click.Choice(["executor", "rccl", "msccl"]),
    default="executor",
    show_default=True,
    help="msccl-xml: whose limits to keep: msccl-executor-nccl, RCCL, or the older MSCCL.",
)
@click.option(
    "--protocol",
    type=click.Choice(["Simple", "LL", "LL128"]),
    default="Simple",
    show_default=True,
    help="msccl-xml: how messages travel; LL for small sizes.",
)
@click.option("--in-place", is_flag=True, help="mscclpp: a plan for calls in place (XML serves both).")
@click.option("--blocks", type=click.IntRange(1, 64), default=8, show_default=True, help="mscclpp: blocks a rank.")
@click.option("--min-bytes", type=SIZE, help="S from which it is used. [the variant's]")
@click.option("--max-bytes", type=SIZE, help="S up to which it is used. [the variant's]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file, - for standard output; or a folder: where there are several variants, or it exists.",
)
@click.option("--force", is_flag=True, help="Overwrite files.")
@only_option
@json_option
def command(
    artefact: Path,
    format_: str,
    target: str,
    protocol: str,
    in_place: bool,
    blocks: int,
    min_bytes: int | None,
    max_bytes: int | None,
    output: Path,
    force: bool,
    only: str | None,
    as_json: bool,
) -> int:
    """Write the schedules of ARTEFACT for other engines: MSCCL's XML, MSCCL++'s execution plans.

    Each file is read back and verified. Without --only, variants that are the best for no size are left out.
    """
    from acclc.artefact import load_artefact
    from acclc.export.errors import ExportError
    from acclc.exports import FORMATS, ExportOptions, export_variant, root_note

    chosen = select(load_artefact(artefact), only)
    variants = [(c, v) for c, vs in chosen for v in vs if only is not None or v.min_bytes is not None]
    if str(output) == "-" and (len(variants) > 1 or as_json):
        raise click.UsageError("one variant fits a stream, without --json; choose with --only NAME/VARIANT")
    options = ExportOptions(format_, target, protocol, in_place, blocks, min_bytes, max_bytes)
    folder = len(variants) > 1 or output.is_dir()
    rows: list[tuple[CompiledCollective, Variant, Path | None, str]] = []
    for collective, variant in variants:
        file = output / f"{collective.name}-{variant.id}{FORMATS[format_]}" if folder else output
        if str(file) != "-" and file.exists() and not force:
            raise click.UsageError(f"{file} exists; --force overwrites it")
        try:
            text = export_variant(collective, variant, options)
        except ExportError as refused:
            if len(variants) == 1:
                raise
            rows.append((collective, variant, None, str(refused)))
            continue
        write_text(file, text)
        rows.append((collective, variant, file, root_note(collective) or ""))
    written = [path for _, _, path, _ in rows if path is not None]
    if as_json:
        files = [
            {"collective": c.name, "variant": v.id, "file": None if p is None else str(p), "note": note}
            for c, v, p, note in rows
        ]
        print_json({"artefact": str(artefact), "ok": bool(written), "files": files})
    elif str(output) != "-":
        for collective, variant, path, _ in rows:
            click.echo(f"{collective.name}/{variant.id}: {'refused' if path is None else path}")
    for note in dict.fromkeys(note for *_, note in rows if note):
        click.echo(f"note: {note}", err=True)
    return OK if written else FAULT

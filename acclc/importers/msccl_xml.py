"""MSCCL's algorithms in XML, other people's too: read with the place of everything that is wrong."""

from __future__ import annotations

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.importers import xml_reader
from acclc.importers.xml_reader import Element
from acclc.ir.msccl import MscclAlgorithm, MscclBlock, MscclGpu, MscclStep, Reference, StepKind
from acclc.source import Source

MAX_STEPS = 1_000_000
MAX_NUMBER = 2**63 - 1
"""Of sizes in bytes."""
MAX_RANKS, MAX_CHUNKS, MAX_COUNT = 4096, 2**20, 2**15
"""More is no algorithm that an engine could run, and a file must not make its reader slow."""


def read_algorithm(source: Source) -> MscclAlgorithm:
    """Return the algorithm of a text. Nothing is checked but that every attribute is there and is what it must be.

    Raises:
        DiagnosticError: no XML, no algorithm, or an attribute that is missing or no value of its kind.
    """
    root = xml_reader.read(source)
    if root.tag != "algo":
        words = f"the outermost element is `<{root.tag}>`; an algorithm of MSCCL is an `<algo>`"
        raise DiagnosticError(Diagnostic("import-unknown-format", words, (Label(root.span),)))
    if sum(1 for _ in root.all("step")) > MAX_STEPS:
        words = f"an algorithm of more than {MAX_STEPS} steps"
        raise DiagnosticError(Diagnostic("import-too-large", words, (Label(root.span),)))
    return MscclAlgorithm(
        name=_text(root, "name"),
        protocol=_text(root, "proto"),
        channels=_whole(root, "nchannels", 0, MAX_CHUNKS),
        chunks_per_loop=_whole(root, "nchunksperloop", 1, MAX_CHUNKS),
        ranks=_whole(root, "ngpus", 1, MAX_RANKS),
        collective=_text(root, "coll"),
        in_place=_flag(root, "inplace"),
        out_of_place=_flag(root, "outofplace"),
        min_bytes=_whole(root, "minBytes") if "minBytes" in root.attributes else None,
        max_bytes=_whole(root, "maxBytes") if "maxBytes" in root.attributes else None,
        gpus=tuple(_gpu(e) for e in root.children if e.tag == "gpu"),
    )


def _gpu(element: Element) -> MscclGpu:
    return MscclGpu(
        id=_whole(element, "id"),
        input_chunks=_whole(element, "i_chunks"),
        output_chunks=_whole(element, "o_chunks"),
        scratch_chunks=_whole(element, "s_chunks"),
        blocks=tuple(_block(e) for e in element.children if e.tag == "tb"),
    )


def _block(element: Element) -> MscclBlock:
    send, receive = _whole(element, "send", -1), _whole(element, "recv", -1)
    return MscclBlock(
        id=_whole(element, "id"),
        send=None if send < 0 else send,
        receive=None if receive < 0 else receive,
        channel=_whole(element, "chan"),
        steps=tuple(_step(e) for e in element.children if e.tag == "step"),
    )


def _step(element: Element) -> MscclStep:
    kind = _text(element, "type")
    if kind not in list(StepKind):
        raise _wrong(element, "type", f"one of {', '.join(StepKind)} is needed")
    block, step = _whole(element, "depid", -1), _whole(element, "deps", -1)
    return MscclStep(
        number=_whole(element, "s"),
        kind=StepKind(kind),
        source=_reference(element, "src"),
        target=_reference(element, "dst"),
        count=_whole(element, "cnt", 0, MAX_COUNT),
        wait=None if block < 0 else (block, step),
        awaited=bool(_whole(element, "hasdep", 0, 1)),
    )


def _reference(element: Element, end: str) -> Reference:
    buffer = _text(element, f"{end}buf")
    if buffer not in ("i", "o", "s"):
        raise _wrong(element, f"{end}buf", "one of i, o, s is needed")
    return Reference(buffer, _whole(element, f"{end}off", -1))


def _text(element: Element, name: str) -> str:
    value = element.attributes.get(name)
    if value is None:
        raise DiagnosticError(
            Diagnostic("import-missing", f"`<{element.tag}>` has no attribute `{name}`", (Label(element.span),))
        )
    return value


def _whole(element: Element, name: str, low: int = 0, high: int = MAX_NUMBER) -> int:
    text = _text(element, name)
    try:
        value = int(text) if len(text) <= 20 else None
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        least = f"from {low}" if high == MAX_NUMBER else f"from {low} to {high}"
        raise _wrong(element, name, f"a whole number {least} is needed")
    return value


def _flag(element: Element, name: str) -> bool | None:
    return bool(_whole(element, name, 0, 1)) if name in element.attributes else None


def _wrong(element: Element, name: str, what: str) -> DiagnosticError:
    shown = element.attributes[name]
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return DiagnosticError(Diagnostic("import-value", f"`{name}` is {shown!r}: {what}", (Label(element.place(name)),)))

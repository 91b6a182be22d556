"""An algorithm of MSCCL as the XML that its engines read: one blank between attributes, a tag on a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from acclc.ir.msccl import MscclAlgorithm, MscclBlock, MscclStep

MAX_LENGTH = 254


def text_of(algorithm: MscclAlgorithm) -> str:
    """Return the text. What an algorithm does not say (None) is left out."""
    return "\n".join(_lines(algorithm)) + "\n"


def safe_name(name: str) -> str:
    """Return a name that the engines' reader takes: letters, digits and ``_-./``, not too long."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-./") else "_" for c in name)[:MAX_LENGTH]


def _lines(algorithm: MscclAlgorithm) -> Iterator[str]:
    head = {
        "name": safe_name(algorithm.name),
        "proto": algorithm.protocol,
        "nchannels": algorithm.channels,
        "nchunksperloop": algorithm.chunks_per_loop,
        "ngpus": algorithm.ranks,
        "coll": algorithm.collective,
        "inplace": _number(algorithm.in_place),
        "outofplace": _number(algorithm.out_of_place),
        "minBytes": algorithm.min_bytes,
        "maxBytes": algorithm.max_bytes,
    }
    yield f"<algo {_attributes(head)}>"
    for gpu in algorithm.gpus:
        sizes = {"i_chunks": gpu.input_chunks, "o_chunks": gpu.output_chunks, "s_chunks": gpu.scratch_chunks}
        yield f"  <gpu {_attributes({'id': gpu.id, **sizes})}>"
        for block in gpu.blocks:
            yield from _block(block)
        yield "  </gpu>"
    yield "</algo>"


def _block(block: MscclBlock) -> Iterator[str]:
    head = {"id": block.id, "send": _peer(block.send), "recv": _peer(block.receive), "chan": block.channel}
    yield f"    <tb {_attributes(head)}>"
    for step in block.steps:
        yield f"      <step {_attributes(_step(step))}/>"
    yield "    </tb>"


def _step(step: MscclStep) -> dict[str, object]:
    block, number = step.wait if step.wait is not None else (-1, -1)
    return {
        "s": step.number,
        "type": step.kind.value,
        "srcbuf": step.source.buffer,
        "srcoff": step.source.offset,
        "dstbuf": step.target.buffer,
        "dstoff": step.target.offset,
        "cnt": step.count,
        "depid": block,
        "deps": number,
        "hasdep": int(step.awaited),
    }


def _attributes(values: Mapping[str, object]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items() if value is not None)


def _peer(rank: int | None) -> int:
    return -1 if rank is None else rank


def _number(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)

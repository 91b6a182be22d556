"""Probing between GPUs by cupy: copies from device to device, timed by events of the sending device."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from acclc.machines.probe import Edge, ProbeError


def import_cupy() -> Any:
    """Return cupy.

    Raises:
        ProbeError: it is not installed, or there are fewer than two GPUs.
    """
    try:
        import cupy
    except ImportError as error:
        raise ProbeError(f"the engine cupy needs cupy ({error}): install acclc[cuda13] or acclc[cuda12]") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ProbeError(f"the engine cupy needs NVIDIA GPUs and their driver: {error}") from None
    if count < 2:
        raise ProbeError(f"an edge needs two GPUs; this machine shows {count}")
    return cupy


class CupyEngine:
    """All GPUs that CUDA shows; a context manager. ``most`` bytes are the largest message."""

    name = "copies between GPUs (cupy)"
    kind = ""
    notes = ("latencies hold the launch of a copy",)

    def __init__(self, cupy: Any, most: int) -> None:
        self._cupy = cupy
        runtime = cupy.cuda.runtime
        count = runtime.getDeviceCount()
        self.labels = tuple(f"GPU {n} at {runtime.deviceGetPCIBusId(n)}" for n in range(count))
        self._most = most
        self._buffers: dict[tuple[int, str, int], Any] = {}
        self._streams: dict[Edge, Any] = {}
        for a in range(count):
            for b in range(count):
                if a != b and runtime.deviceCanAccessPeer(a, b):
                    self._join(a, b)

    def __enter__(self) -> CupyEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buffers.clear()
        self._streams.clear()

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        """Seconds of single copies."""
        return [self._run([edge], nbytes)[0] for _ in range(repeats + 1)][1:]

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        """The median of several turns in which all copies are launched at once, each in its stream."""
        turns = [self._run(edges, nbytes) for _ in range(repeats + 1)][1:]
        return [sorted(times)[len(times) // 2] for times in zip(*turns, strict=True)]

    def _run(self, edges: Sequence[Edge], nbytes: int) -> list[float]:
        cuda = self._cupy.cuda
        marks = []
        for src, dst in edges:
            source, target = self._buffer(src, "from", dst), self._buffer(dst, "into", src)
            with cuda.Device(src):
                if (src, dst) not in self._streams:
                    self._streams[src, dst] = cuda.Stream(non_blocking=True)
                stream = self._streams[src, dst]
                first, last = cuda.Event(), cuda.Event()
                first.record(stream)
                cuda.runtime.memcpyPeerAsync(target.ptr, dst, source.ptr, src, nbytes, stream.ptr)
                last.record(stream)
            marks.append((src, first, last))
        seconds = []
        for src, first, last in marks:
            with cuda.Device(src):
                last.synchronize()
                seconds.append(cuda.get_elapsed_time(first, last) / 1e3)
        return seconds

    def _buffer(self, device: int, what: str, other: int) -> Any:
        key = (device, what, other)
        if key not in self._buffers:
            with self._cupy.cuda.Device(device):
                self._buffers[key] = self._cupy.cuda.Memory(self._most)
        return self._buffers[key]

    def _join(self, device: int, peer: int) -> None:
        runtime = self._cupy.cuda.runtime
        with self._cupy.cuda.Device(device):
            try:
                runtime.deviceEnablePeerAccess(peer)
            except runtime.CUDARuntimeError as error:
                if "AlreadyEnabled" not in str(error):
                    raise

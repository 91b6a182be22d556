"""A double of pynvml: it answers for a machine that is given by its NVLinks, and records what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    pass


@dataclass
class Nvml:
    """``ends[i]``: for each NVLink of GPU i the PCI address of its other end. ``lacking``: functions that refuse."""

    addresses: Sequence[str]
    ends: Sequence[Sequence[str]]
    levels: Mapping[tuple[int, int], int] = field(default_factory=dict)
    refused: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    name: str = "Tesla V100-SXM2-16GB"
    asked: list[tuple[object, ...]] = field(default_factory=list)
    NVMLError = NVMLError

    def __getattribute__(self, name: str):
        found = object.__getattribute__(self, name)
        if name.startswith("nvml"):
            object.__getattribute__(self, "asked").append((name,))
            if name in object.__getattribute__(self, "lacking"):

                def refuse(*_: object) -> None:
                    raise NVMLError("Not Supported")

                return refuse
        return found

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.addresses)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"570.86.10"

    def nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=f"0000{self.addresses[handle]}".upper().encode())

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle:08x}-1111-2222-3333-444444444444"

    def nvmlDeviceGetName(self, _: int) -> bytes:  # noqa: N802
        return self.name.encode()

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= 6 + 12 * bool(self.switches):
            raise NVMLError("Invalid Argument")
        return int(link < len(self.ends[handle]))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=self.ends[handle][link].encode())

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:  # noqa: N802
        return 2 if self.ends[handle][link] in self.switches else 0

    def nvmlDeviceGetNvLinkVersion(self, *_: int) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int) -> int:  # noqa: N802
        return self.levels.get((a, b), 50)

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, index: int) -> int:  # noqa: N802
        return self.refused.get((a, b, index), 0)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _: int) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetMaxPcieLinkWidth(self, _: int) -> int:  # noqa: N802
        return 16

    def nvmlDeviceGetNumaNodeId(self, handle: int) -> int:  # noqa: N802
        return int(handle >= len(self.addresses) // 2)

    def nvmlDeviceGetCudaComputeCapability(self, _: int) -> tuple[int, int]:  # noqa: N802
        return (9, 0) if "H100" in self.name else (7, 0)

    def nvmlDeviceGetMigMode(self, _: int) -> list[int]:  # noqa: N802
        return [0, 0]


DGX1 = {
    (0, 1): 2, (0, 2): 1, (0, 3): 1, (1, 2): 1, (1, 3): 2, (2, 3): 2, (4, 5): 2, (4, 6): 1,
    (4, 7): 1, (5, 6): 1, (5, 7): 2, (6, 7): 2, (0, 4): 2, (1, 5): 1, (2, 6): 2, (3, 7): 1,
}  # fmt: skip


def addresses(count: int) -> list[str]:
    return [f"0000:{6 + 4 * i:02x}:00.0" for i in range(count)]


def relabelled(counts: Mapping[tuple[int, int], int], order: Sequence[int], beyond: int = 0) -> Nvml:
    """A machine whose GPU ``order[i]`` is GPU i of ``counts``; ``beyond`` more GPUs without NVLink."""
    places = addresses(len(order) + beyond)
    ends: list[list[str]] = [[] for _ in places]
    for (a, b), n in counts.items():
        ends[order[a]] += [places[order[b]]] * n
        ends[order[b]] += [places[order[a]]] * n
    return Nvml(places, ends)


def switched(gpus: int, lanes: int) -> Nvml:
    """GPUs with so many links to each of two switches."""
    switches = ["0000:c0:00.0", "0000:c1:00.0"]
    return Nvml(
        addresses(gpus), [sorted(switches * lanes)] * gpus, switches=frozenset(switches), name="NVIDIA H100 80GB HBM3"
    )

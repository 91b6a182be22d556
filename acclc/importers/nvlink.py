"""From NV# of pairs to links: a direct mesh, or a switch whose ports the numbers count.

The rule: the NV# of one row of ``nvidia-smi topo -m`` sum to at most the number of NVLinks of a GPU where the pairs
are wired directly. Where all pairs of a group show one same number and the sum is larger, each GPU has that many
links to a switch. A sum that is larger without this is no machine that can be built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acclc.importers.rates import MOST_LINKS, NVIDIA

Pair = tuple[int, int]
"""(a, b) with a < b."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that NVLink connects. ``ports``: links of each GPU to the group's switch; 0 where it is a direct mesh."""

    members: tuple[int, ...]
    ports: int


@dataclass(frozen=True, slots=True)
class Fabric:
    """What the numbers mean. ``generation`` is a word of the table; ``impossible``: GPU -> sum of its links."""

    groups: tuple[Group, ...]
    generation: str
    concluded: tuple[str, ...]
    assumed: tuple[str, ...]
    impossible: Mapping[int, int]
    budget: int
    """Links that a GPU has at most: of its generation where that is known, else of any."""

    @property
    def switched(self) -> bool:
        """Whether any group has a switch."""
        return any(g.ports for g in self.groups)


def infer(count: int, links: Mapping[Pair, int], generation: str | None) -> Fabric:
    """Return what the NVLinks of ``count`` GPUs are; ``generation`` is what is known of them, if anything is."""
    sums = [0] * count
    for (a, b), n in links.items():
        sums[a] += n
        sums[b] += n
    budget = NVIDIA[generation].links if generation else MOST_LINKS
    groups = tuple(_group(members, links, sums, budget) for members in components(count, links))
    impossible = {m: sums[m] for g in groups if not g.ports for m in g.members if sums[m] > budget}
    concluded: list[str] = []
    assumed: list[str] = []
    found = generation or _generation(groups, links, sums, bool(impossible), concluded, assumed)
    for g in groups:
        if g.ports:
            total = g.ports * (len(g.members) - 1)
            concluded.append(
                f"{_gpus(g.members)} hang on an NVSwitch with {g.ports} links each: NV{g.ports} for each pair would sum"
                f" to {total} links a GPU, more than the {budget if generation else NVIDIA[found].links} that one has"
            )
        elif not any(m in impossible for m in g.members):
            most = max(sums[m] for m in g.members)
            concluded.append(
                f"{_gpus(g.members)} are wired directly: their NV# sum to {most} links a GPU at most, within the"
                f" {NVIDIA[found].links} of {NVIDIA[found].name}"
            )
    return Fabric(groups, found, tuple(concluded), tuple(assumed), impossible, budget)


def components(count: int, links: Mapping[Pair, int]) -> list[tuple[int, ...]]:
    """Return the sets of GPUs that NVLinks join, each of two or more."""
    near: dict[int, list[int]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    seen: set[int] = set()
    found: list[tuple[int, ...]] = []
    for start in range(count):
        if start in seen or start not in near:
            continue
        stack, members = [start], {start}
        while stack:
            for other in near[stack.pop()]:
                if other not in members:
                    members.add(other)
                    stack.append(other)
        seen |= members
        found.append(tuple(sorted(members)))
    return found


def _group(members: tuple[int, ...], links: Mapping[Pair, int], sums: list[int], budget: int) -> Group:
    size = len(members)
    first = links.get((members[0], members[1]), 0)
    if first == 0 or first > budget or sums[members[0]] <= budget:
        return Group(members, 0)
    within = sum(1 for a in members if sums[a] == first * (size - 1))
    inside = set(members)
    pairs = [n for (a, _), n in links.items() if a in inside]
    if within == size and len(pairs) == size * (size - 1) // 2 and all(n == first for n in pairs):
        return Group(members, first)
    return Group(members, 0)


def _generation(
    groups: tuple[Group, ...],
    links: Mapping[Pair, int],
    sums: list[int],
    impossible: bool,
    concluded: list[str],
    assumed: list[str],
) -> str:
    ports = max((g.ports for g in groups), default=0)
    if ports:
        word = "v100" if ports <= 6 else "a100" if ports <= 12 else "h100"
        concluded.append(f"{NVIDIA[word].name}: {ports} links a GPU to the switch")
        if word == "h100":
            assumed.append("H100 and not B200, which has 18 links too; `--set gpu=b200` says otherwise")
        return word
    most = max(sums, default=0)
    if impossible:
        assumed.append(f"{NVIDIA['h100'].name}, though no GPU has so many links")
        return "h100"
    pairs_only = all(len(g.members) == 2 for g in groups)
    if pairs_only and most == 4:
        word = "ga10x"
    elif not pairs_only and most == 4 and max(links.values()) == 1:
        word = "p100"
    else:
        word = "v100" if most <= 6 else "a100" if most <= 12 else "h100"
    assumed.append(
        f"{NVIDIA[word].name}, since the sum of {most} links a GPU fits it; `--set gpu=...` says otherwise"
        f" ({', '.join(NVIDIA)})"
    )
    if any(len(g.members) > 2 and len(set(_counts(g, links))) == 1 for g in groups):
        assumed.append("direct links and no switch, since the sum allows it")
    return word


def _counts(group: Group, links: Mapping[Pair, int]) -> list[int]:
    inside = set(group.members)
    return [n for (a, _), n in links.items() if a in inside]


def _gpus(members: tuple[int, ...]) -> str:
    if len(members) > 2 and members[-1] - members[0] == len(members) - 1:
        return f"GPU{members[0]} to GPU{members[-1]}"
    if len(members) > 8:
        return f"{len(members)} GPUs from GPU{members[0]}"
    return ", ".join(f"GPU{m}" for m in members[:-1]) + f" and GPU{members[-1]}"

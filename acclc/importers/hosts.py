"""How the NUMA nodes of one machine are joined."""

from __future__ import annotations

from acclc.importers import classes
from acclc.importers.model import Draft
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind


def join_hosts(draft: Draft, settings: Settings, hosts: list[int], word: str | None) -> None:
    """Join the NUMA nodes of one machine; ``word`` of the table where the CPU is known."""
    if len(hosts) < 2:
        return
    if word is None and settings.word("cpu") is None:
        draft.assume(
            "the sockets are joined as Skylake's are (10 GB/s); `--set cpu=amd` or `--set smp=...` says otherwise"
        )
    cls = classes.smp(draft, settings, word or "skylake")
    if len(hosts) <= 8:
        for i, a in enumerate(hosts):
            for b in hosts[i + 1 :]:
                draft.link(a, b, 1, cls, "between NUMA nodes")
        if len(hosts) > 2:
            draft.assume("every two NUMA nodes are joined directly, as NCCL takes it")
        return
    middle = draft.node(NodeKind.SWITCH, "interconnect", "between NUMA nodes")
    for a in hosts:
        draft.link(a, middle, 1, cls, "between NUMA nodes")
    draft.assume("the NUMA nodes are joined by one switch, since there are more than eight")

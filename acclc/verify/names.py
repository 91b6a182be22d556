"""How messages name things: ranks, links, chunks, transfers."""

from __future__ import annotations

from acclc.ir.problem import Problem
from acclc.ir.schedule import Chunk, Schedule, Transfer


def node_name(problem: Problem, node: int) -> str:
    """Return the name as the user wrote it, or a number where the id names no node."""
    nodes = problem.topology.nodes
    return nodes[node].name if 0 <= node < len(nodes) else f"node {node}"


def rank_name(problem: Problem, rank: int) -> str:
    """Return e.g. ``rank 3 (g[3])``."""
    return f"rank {rank} ({node_name(problem, rank)})"


def link_name(problem: Problem, link: int) -> str:
    """Return e.g. ``link 5 (g[0] -> g[1])``."""
    links = problem.topology.links
    if not 0 <= link < len(links):
        return f"link {link}"
    return f"link {link} ({node_name(problem, links[link].src)} -> {node_name(problem, links[link].dst)})"


def shard_name(problem: Problem, shard: int) -> str:
    """Return e.g. ``shard 2 (part[2])``."""
    shards = problem.shards
    return f"shard {shard} ({shards[shard].name})" if 0 <= shard < len(shards) else f"shard {shard}"


def chunk_name(problem: Problem, chunk: Chunk) -> str:
    """Return e.g. ``chunk 1 of shard 2 (part[2])``."""
    return f"chunk {chunk.index} of {shard_name(problem, chunk.shard)}"


def transfer_name(problem: Problem, schedule: Schedule, transfer: Transfer) -> str:
    """Return the transfer with its chunk, ends and step."""
    known = 0 <= transfer.chunk < len(schedule.chunks)
    chunk = chunk_name(problem, schedule.chunks[transfer.chunk]) if known else f"chunk {transfer.chunk}"
    ends = f"{node_name(problem, transfer.src)} -> {node_name(problem, transfer.dst)}"
    return f"transfer {transfer.id} ({chunk}, {ends}, step {transfer.step})"

"""What a schedule costs: event-driven time for a size, its closed form, and NCCL-shaped baselines beside it."""

from acclc.simulate.baselines import Baseline, baselines
from acclc.simulate.events import StuckError, TransferTime
from acclc.simulate.ranges import best_within, simulated, size_ranges
from acclc.simulate.sizes import line_ranges, shard_bytes, size_bytes, size_factor, step_time
from acclc.simulate.slices import chain_latency
from acclc.simulate.timeline import LinkUse, Timeline, simulate

__all__ = [
    "Baseline",
    "LinkUse",
    "StuckError",
    "Timeline",
    "TransferTime",
    "baselines",
    "best_within",
    "chain_latency",
    "line_ranges",
    "shard_bytes",
    "simulate",
    "simulated",
    "size_bytes",
    "size_factor",
    "size_ranges",
    "step_time",
]

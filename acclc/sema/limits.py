"""How large a file's contents may become. Beyond these an error is reported before memory is taken."""

from __future__ import annotations

MAX_NUMBER = 10**12
"""Absolute value of any result of arithmetic."""
MAX_NODES = 65_536
MAX_LINKS = 4_000_000
MAX_ITERATIONS = 2_500_000
"""Runs of the innermost body, all loops of one topology or custom collective together."""
MAX_RUNS_AFTER_ERROR = 20_000
"""The same, once there is an error anywhere in the file: what more is found would be found again after its mending."""
MAX_FAILURES = 10_000
"""Runs of statements with an error, in one topology or collective; each place is reported once anyway."""
MAX_PLACES = 4_194_304
"""Inputs and outputs of all shards of a problem: 2,048 ranks of an all_gather."""
MAX_DEPTH = 32
"""Loops within loops, replicas within replicas, imports within imports."""
MAX_RATE = 10**18
"""Bytes per second."""
MAX_SECONDS = 10**6
MAX_BYTES = 2**60
"""Sizes of a goal."""
MAX_LIMIT = 1_000_000
"""Chunks, steps, rounds, blocks."""
MAX_WEIGHT = 64
"""Counts of a vector of one collective among several: each is a shard of its own."""
MIN_BLOCKS = 2
"""Of a GPU: one works locally, the others serve its links."""
MAX_CHANNELS = 64

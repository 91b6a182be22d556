"""The codes of the command line and the driver: about files, options and artefacts, not about a line of text."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry

COMMAND_CODES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "bad-degrade",
        "a degraded link that is not said as LINK = RATE",
        '`--degrade "g[0] <-> g[1] = 10 GB/s"` makes every link between the two slower, in both directions;'
        ' `--degrade "1 of g[0] -> g[1] = 10 GB/s"` one of them in one direction. The rate is that of one link and one'
        " direction, and lower than it was.",
    ),
)

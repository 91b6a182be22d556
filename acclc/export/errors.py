"""Why a schedule cannot be written in a format."""

from __future__ import annotations


class ExportError(Exception):
    """A schedule does not fit a format. ``limit`` names the limit in a word (``blocks``), the message says it all."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit

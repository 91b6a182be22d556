"""Text <-> syntax tree. Knows nothing of what the text means."""

from __future__ import annotations

from acclc.syntax.formatter import format_file, format_tree
from acclc.syntax.parser import parse, parse_link_ref, read_source, source_of_bytes

__all__ = ["format_file", "format_tree", "parse", "parse_link_ref", "read_source", "source_of_bytes"]

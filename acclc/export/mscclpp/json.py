"""A plan of MSCCL++ as JSON: keys as its parser wants them, those without a value left out."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from acclc.ir.mscclpp import Plan, PlanOp

_ALWAYS = {"channels", "remote_buffer_refs", "remote_buffers", "semaphores", "ops", "threadblocks", "connected_to"}
"""Lists that the parser looks for also where they are empty (those of an op are not)."""


def text_of(plan: Plan) -> str:
    """Return the text."""
    return json.dumps(_value(plan), indent=1) + "\n"


def _value(record: Any) -> Any:
    if isinstance(record, tuple):
        return [_value(r) for r in record]
    if not hasattr(record, "__dataclass_fields__"):
        return record
    found: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        empty = value is None or value == ()
        if not empty or (field.name in _ALWAYS and not isinstance(record, PlanOp)):
            found[field.name] = _value(value)
    return found

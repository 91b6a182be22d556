"""Export to MSCCL++'s execution plans: schedule -> moves -> plan -> JSON."""

from acclc.export.mscclpp.json import text_of
from acclc.export.mscclpp.plan import BLOCKS, PlanOptions, export_plan

__all__ = ["BLOCKS", "PlanOptions", "export_plan", "text_of"]

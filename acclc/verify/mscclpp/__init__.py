"""Execution plans of MSCCL++: what its parser demands, and what an execution does."""

from acclc.verify.mscclpp.check import PlanFacts, check_plan
from acclc.verify.mscclpp.rules import check_rules

__all__ = ["PlanFacts", "check_plan", "check_rules"]

"""Verifiers of every level. They share no code with solving and lowering, and load no solver."""

from acclc.verify.findings import Finding, Report
from acclc.verify.kernel import KernelFacts, check_kernel
from acclc.verify.problem import ProblemFacts, check_problem
from acclc.verify.program import ProgramFacts, check_program
from acclc.verify.schedule import ScheduleFacts, check_schedule

__all__ = [
    "Finding",
    "KernelFacts",
    "ProblemFacts",
    "ProgramFacts",
    "Report",
    "ScheduleFacts",
    "check_kernel",
    "check_problem",
    "check_program",
    "check_schedule",
]

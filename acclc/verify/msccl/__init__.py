"""Algorithms of MSCCL, whoever made them: what the engines' parsers demand, and what an execution does."""

from acclc.verify.msccl.check import AlgorithmFacts, check_algorithm
from acclc.verify.msccl.interpreter import interpret
from acclc.verify.msccl.rules import TARGETS, check_limits
from acclc.verify.msccl.text import check_text

__all__ = ["TARGETS", "AlgorithmFacts", "check_algorithm", "check_limits", "check_text", "interpret"]

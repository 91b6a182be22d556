"""Lower bounds with certificates: how fast any schedule of a problem can be, and what proves it."""

from acclc.bounds.compute import bound
from acclc.bounds.loads import UnreachableError

__all__ = ["UnreachableError", "bound"]

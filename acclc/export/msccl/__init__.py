"""Export to MSCCL's XML: schedule -> actions -> blocks -> waits -> algorithm -> text."""

from acclc.export.msccl.algorithm import ENGINES, MscclOptions, export_msccl
from acclc.export.msccl.xml import safe_name, text_of

__all__ = ["ENGINES", "MscclOptions", "export_msccl", "safe_name", "text_of"]

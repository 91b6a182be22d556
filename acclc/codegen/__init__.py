"""From a KernelProgram to the text of kernel.cu, one source for all compilers; from a manifest to the module."""

from acclc.codegen.generate import generate
from acclc.codegen.make_plan import KernelProgramError, make_plan
from acclc.codegen.module import render_module

__all__ = ["KernelProgramError", "generate", "make_plan", "render_module"]

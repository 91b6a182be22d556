"""Schedule -> Program -> KernelProgram, in named passes of one decision each.

placement   where each value lies: the final place, or a scratch slot
program     who does it: blocks of sends, receives and local work, and what waits for what
kernel      how: puts into mapped memory, counters, credits
"""

from acclc.lower.kernel import lower_kernel
from acclc.lower.program import lower_program

__all__ = ["lower_kernel", "lower_program"]

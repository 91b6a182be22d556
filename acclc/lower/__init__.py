"""Schedule -> Program -> KernelProgram, in named passes of one decision each.

placement   where each value lies: the final place, or a scratch slot
program     who does it: blocks of sends, receives and local work, and what waits for what
kernel      how: puts into mapped memory, counters, credits
eager       how, for small messages: one round through slots
direct      how, where ranks read and write each other's buffers: no slots
owned       a schedule that direct makes the best of
"""

from acclc.lower.direct import lower_direct
from acclc.lower.eager import can_be_eager, can_use_lines, lower_eager
from acclc.lower.kernel import lower_kernel
from acclc.lower.owned import owned_schedule
from acclc.lower.program import lower_program

__all__ = [
    "can_be_eager",
    "can_use_lines",
    "lower_direct",
    "lower_eager",
    "lower_kernel",
    "lower_program",
    "owned_schedule",
]

"""What laying trees may cost, in counted work, and until when."""

from __future__ import annotations

from dataclasses import dataclass

from acclc.solve.protocol import Deadline


@dataclass(slots=True)
class Spending:
    """What the search may still cost, in ways looked at; and the moment at which it must end."""

    left: float
    deadline: Deadline
    clock_cut: bool = False

    def affords(self, cost: float) -> bool:
        """Whether a run of so much may begin; if so, it is paid."""
        self.clock_cut |= self.deadline.expired
        if self.clock_cut or cost > self.left:
            return False
        self.left -= cost
        return True

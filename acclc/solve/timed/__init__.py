"""Schedules for a size: trees at prices of load, and a list schedule (Graham, 1966) of their moves."""

from acclc.solve.timed.laid import Laid, laid_schedule
from acclc.solve.timed.spending import Spending
from acclc.solve.timed.variant import Timed, timed_schedules

__all__ = ["Laid", "Spending", "Timed", "laid_schedule", "timed_schedules"]

"""Schedules for a size: trees at prices of load, and a list schedule (Graham, 1966) of their moves."""

from acclc.solve.timed.variant import Spending, Timed, timed_schedules

__all__ = ["Spending", "Timed", "timed_schedules"]

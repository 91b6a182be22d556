"""Solvers: Problem -> Schedules. One protocol (:mod:`.protocol`), a registry (:mod:`.registry`), one that chooses.

``portfolio.solve`` is what the compiler calls: a constructive schedule first (:mod:`.greedy`), then the exact search
(:mod:`.exact`: :mod:`.model` asks CP-SAT for one point, :mod:`.prober` remembers, :mod:`.search` walks the frontier,
:mod:`.shared` does reductions that several ranks need). Nothing here is believed: every schedule is verified elsewhere.
"""

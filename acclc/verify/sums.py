"""Values as sums that commute but do not associate, as floats do: which contributions, and in which tree."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = int
"""Index into the table; -1 where nobody wrote."""


@dataclass(slots=True)
class Sums:
    """All values of a run. Equal values have equal numbers."""

    index: dict[tuple[int, int], int] = field(default_factory=dict)
    contributions: list[int] = field(default_factory=list)
    """Bit i: contribution i is in it."""
    twice: list[bool] = field(default_factory=list)
    """Whether a contribution is in it more than once."""

    def own(self, bit: int) -> Value:
        """Return contribution ``bit`` alone."""
        return self._intern((-1, bit), 1 << bit, False)

    def add(self, one: Value, other: Value) -> Value:
        """Return the sum of two values."""
        left, right = self.contributions[one], self.contributions[other]
        twice = self.twice[one] or self.twice[other] or bool(left & right)
        return self._intern((min(one, other), max(one, other)), left | right, twice)

    def _intern(self, key: tuple[int, int], contributions: int, twice: bool) -> Value:
        number = self.index.setdefault(key, len(self.contributions))
        if number == len(self.contributions):
            self.contributions.append(contributions)
            self.twice.append(twice)
        return number


@dataclass(slots=True)
class Contributions:
    """The contributions of a collective: (rank, chunk of its input), numbered as they are named first."""

    bits: dict[tuple[int, int], int] = field(default_factory=dict)

    def bit(self, origin: tuple[int, int]) -> int:
        """Return the number of a contribution."""
        return self.bits.setdefault(origin, len(self.bits))

    def objection(self, sums: Sums, value: Value, origins: list[tuple[int, int]]) -> str | None:
        """Say what is wrong with a value that has to be the sum of ``origins``, if anything is."""
        if value < 0:
            return "holds no value"
        needed, have = sum(1 << self.bit(o) for o in origins), sums.contributions[value]
        if needed & ~have:
            more = f"; holds {self._words(have & ~needed)}" if have & ~needed else ""
            return f"lacks {self._words(needed & ~have)}{more}"
        if have & ~needed:
            return f"holds {self._words(have & ~needed)}, which does not belong there"
        return "has a contribution twice" if sums.twice[value] else None

    def _words(self, mask: int) -> str:
        listed = [origin for origin, bit in self.bits.items() if mask >> bit & 1]
        shown = ", ".join(f"chunk {chunk} of rank {rank}" for rank, chunk in listed[:3])
        return shown + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")

"""Did you mean ...?"""

from __future__ import annotations

from collections.abc import Iterable


def suggest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that ``word`` is most likely a slip of, or None if none is near.

    Near is: equal but for case and the signs ``_ - .``, or at most a third of the letters edited (one edit at
    least; insertion, deletion, substitution or swap of neighbours: the optimal string alignment distance), or
    ``word`` is the start of exactly one candidate. Of equally near ones the first in sorted order is returned.
    """
    known = sorted(set(candidates))
    folded = _fold(word)
    for candidate in known:
        if _fold(candidate) == folded:
            return candidate
    best: tuple[int, str] | None = None
    for candidate in known:
        limit = max(1, max(len(word), len(candidate)) // 3)
        if abs(len(word) - len(candidate)) > limit or min(len(word), len(candidate)) < 2:
            continue
        edits = _distance(folded, _fold(candidate), limit)
        if edits <= limit and (best is None or edits < best[0]):
            best = (edits, candidate)
    if best is not None:
        return best[1]
    longer = [c for c in known if len(word) >= 3 and _fold(c).startswith(folded)]
    return longer[0] if len(longer) == 1 else None


def _fold(word: str) -> str:
    return word.casefold().translate({ord(c): None for c in "_-."})


def _distance(a: str, b: str, limit: int) -> int:
    """Return the optimal string alignment distance, or any number above ``limit`` once it is exceeded."""
    if len(a) > 64 or len(b) > 64:
        return limit + 1
    before: list[int] = []
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return previous[-1]

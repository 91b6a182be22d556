"""Names of whole numbers: parameters, ``let`` and loop variables."""

from __future__ import annotations

from collections.abc import Iterator


class Scope:
    """A block's names, and those of the blocks around it. None as a value: its error is reported already."""

    __slots__ = ("is_loop", "names", "parent")

    def __init__(self, parent: Scope | None = None, *, is_loop: bool = False) -> None:
        self.names: dict[str, int | None] = {}
        self.parent = parent
        self.is_loop = is_loop

    def holds(self, name: str) -> bool:
        """Say whether ``name`` is known here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.parent
        return False

    def get(self, name: str) -> int | None:
        """Return the value of a known name.

        Raises:
            KeyError: it is not known.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        raise KeyError(name)

    def poison(self, name: str) -> None:
        """Forget the value of a known name: an error about it is reported, and one is enough."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                scope.names[name] = None
                return
            scope = scope.parent

    def all_names(self) -> Iterator[str]:
        """Yield every name, innermost block first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent

    def loop_note(self) -> tuple[str, ...]:
        """Return a note that gives the values of the loop variables around, or nothing outside loops."""
        values: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            if scope.is_loop:
                values[:0] = [f"{name} = {value}" for name, value in scope.names.items() if value is not None]
            scope = scope.parent
        return (f"here {', '.join(values)}",) if values else ()

"""What a collective means, computed on its inputs: the truth that every backend is compared with.

Knows nothing of programs, chunks or schedules. A definition is a list of *relations*: each says which parts of
the inputs are equal, or reduced, and which parts of the outputs hold the result. Those of the named collectives
come from their names alone; those of custom collectives and of several together from the manifest's shards.

Integers are exact: they wrap; avg is the wrapped sum rounded toward zero. Floats are computed in f64 and
compared within the worst case of any order of reduction (``tolerance``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc_runtime.counts import Matrix
from acclc_runtime.dtypes import DType, Kind, bf16_to_f32, f32_to_bf16, named
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.reference_places import Place, sizes_of

Arrays = Sequence[NDArray[Any] | None]
"""One flat array a rank in the storage type of the dtype (bf16 as uint16); None where there is no buffer."""

BLOCK = 1 << 20
"""Elements that are compared at a time, to bound memory."""

_UNIT_ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
_SMALLEST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}


@dataclass(frozen=True, slots=True)
class Relation:
    """One count-long vector: reduced from (or equal to) the ``inputs``, needed at the ``outputs``."""

    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    reduced: bool = False


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A wrong element: of rank ``rank`` (global), number ``element`` of its output."""

    rank: int
    element: int
    expected: float | int | str
    got: float | int | str

    @property
    def words(self) -> str:
        """Where it is, and what is wrong."""
        return f"rank {self.rank}, element {self.element}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many elements are wrong, and the first of them."""

    wrong: int
    mismatches: tuple[Mismatch, ...]


def definition(collective: ManifestCollective) -> tuple[Relation, ...]:
    """Return the relations that define a collective."""
    make = _DEFINITIONS.get(collective.collective)
    if make is not None:
        return make(collective)
    index = {rank: i for i, rank in enumerate(collective.ranks)}
    return tuple(
        Relation(
            tuple((index[rank], unit) for rank, unit in shard.inputs),
            tuple((index[rank], unit) for rank, unit in shard.outputs),
            shard.reduced,
        )
        for shard in collective.shards
    )


def _group(collective: ManifestCollective) -> list[int]:
    """Return the indices of the ranks in the order of their group ranks."""
    return sorted(range(len(collective.ranks)), key=lambda i: collective.positions[i])


def _root(collective: ManifestCollective) -> int:
    if collective.root not in collective.ranks:
        raise ArgumentError(f"{collective.name}: a {collective.collective} needs a root that is one of its ranks")
    return collective.ranks.index(collective.root)


def _all_gather(c: ManifestCollective) -> tuple[Relation, ...]:
    group = _group(c)
    return tuple(Relation(((i, 0),), tuple((k, p) for k in group)) for p, i in enumerate(group))


def _reduce_scatter(c: ManifestCollective) -> tuple[Relation, ...]:
    group = _group(c)
    return tuple(Relation(tuple((k, p) for k in group), ((i, 0),), True) for p, i in enumerate(group))


def _all_reduce(c: ManifestCollective) -> tuple[Relation, ...]:
    everyone = tuple((i, 0) for i in _group(c))
    return (Relation(everyone, everyone, True),)


def _broadcast(c: ManifestCollective) -> tuple[Relation, ...]:
    return (Relation(((_root(c), 0),), tuple((i, 0) for i in _group(c))),)


def _reduce(c: ManifestCollective) -> tuple[Relation, ...]:
    return (Relation(tuple((i, 0) for i in _group(c)), ((_root(c), 0),), True),)


def _gather(c: ManifestCollective) -> tuple[Relation, ...]:
    return tuple(Relation(((i, 0),), ((_root(c), p),)) for p, i in enumerate(_group(c)))


def _scatter(c: ManifestCollective) -> tuple[Relation, ...]:
    return tuple(Relation(((_root(c), p),), ((i, 0),)) for p, i in enumerate(_group(c)))


def _all_to_all(c: ManifestCollective) -> tuple[Relation, ...]:
    group = _group(c)
    return tuple(Relation(((i, q),), ((k, p),)) for p, i in enumerate(group) for q, k in enumerate(group))


_DEFINITIONS: dict[str, Callable[[ManifestCollective], tuple[Relation, ...]]] = {
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all,
}


def tolerance(dtype: str, op: str | None, contributors: int) -> float:
    """Return the relative error that any order of reduction may have; 0 where results are exact.

    Relative to the sum of magnitudes (sum, avg) or to the result (prod). With u the unit roundoff, n operands
    have at most n - 1 roundings on the way to a result, each within u; one more for avg, and for the 16-bit
    types the smaller ones of their f32 accumulation: (n + 1) u, over 1 - (n + 1) u (Higham, Accuracy and
    Stability of Numerical Algorithms, lemma 3.1). Twice that for f64, in which the reference itself is rounded.
    """
    kind = named(dtype)
    if op in (None, "min", "max") or kind.kind is not Kind.FLOAT:
        return 0.0
    rounded = (contributors + 1) * _UNIT_ROUNDOFF[kind.name] * (2 if kind.name == "f64" else 1)
    return rounded / (1 - rounded) if rounded < 0.5 else 1.0


def random_inputs(
    collective: ManifestCollective,
    count: int,
    dtype: str,
    seed: int,
    *,
    op: str | None = None,
    general: bool = False,
    counts: Matrix | None = None,
) -> list[NDArray[Any] | None]:
    """Return one flat array a rank, the same for the same arguments; inputs that must be equal are equal.

    ``counts``: the matrix of an all_to_all_v, whose ``count`` says nothing.

    What is only moved is random bits, integers have their whole range. Floats that are reduced are small whole
    numbers whose sums (and products) are exact in any order; with ``general`` they are of mixed magnitudes.
    """
    kind = named(dtype)
    generator = np.random.default_rng([seed, count])
    sizes = sizes_of(collective, count, counts)
    inputs = [
        None if units == 0 else np.zeros(sizes.inputs_end(index, units), kind.storage)
        for index, units in enumerate(collective.input_units)
    ]
    filled: set[Place] = set()
    for relation in definition(collective):
        if relation.reduced:
            n = len(relation.inputs)
            for position, place in enumerate(relation.inputs):
                part = _part(inputs, place, sizes.input(place))
                part[:] = _random_values(generator, kind, len(part), op, general, position, n)
        else:
            known = [place for place in relation.inputs if place in filled]
            source = known[0] if known else relation.inputs[0]
            origin = _part(inputs, source, sizes.input(source))
            if not known:
                origin[:] = _random_bits(generator, kind, len(origin))
            for place in relation.inputs:
                _part(inputs, place, sizes.input(place))[:] = origin
        filled.update(relation.inputs)
    return inputs


PATTERNS = ("even", "random", "one_hot", "skewed")
"""Of matrices of counts: all equal; any, a third of them zero; one destination a rank; one huge and the rest tiny."""


def random_counts(collective: ManifestCollective, pattern: str, largest_row: int, seed: int) -> Matrix:
    """Return a matrix of counts for an all_to_all_v, of which no row sums to more than about ``largest_row``.

    Raises:
        ArgumentError: no such pattern.
    """
    n = len(collective.ranks)
    generator = np.random.default_rng([seed, largest_row, n])
    match pattern:
        case "even":
            found = np.full((n, n), -(-largest_row // n))
        case "random":
            found = generator.integers(0, 2 * largest_row // n + 2, (n, n)) * (generator.random((n, n)) > 1 / 3)
        case "one_hot":
            found = np.zeros((n, n), np.int64)
            found[np.arange(n), generator.integers(0, n, n)] = generator.integers(0, largest_row + 1, n)
        case "skewed":
            found = generator.integers(0, 4, (n, n))
            found[generator.integers(0, n), generator.integers(0, n)] = largest_row
        case _:
            raise ArgumentError(f"no pattern {pattern!r} of counts; there are {', '.join(PATTERNS)}")
    return tuple(tuple(map(int, row)) for row in found)


def _random_bits(generator: np.random.Generator, kind: DType, count: int) -> NDArray[Any]:
    if kind.name == "bool":
        return generator.integers(0, 2, count, np.uint8).view(np.bool_)
    words = generator.integers(0, 2**64, -(-count * kind.item_bytes // 8), np.uint64)
    return words.view(np.uint8)[: count * kind.item_bytes].view(kind.storage)


def _random_values(
    generator: np.random.Generator, kind: DType, count: int, op: str | None, general: bool, position: int, n: int
) -> NDArray[Any]:
    """Return one contribution of ``n``."""
    if kind.kind is not Kind.FLOAT:
        return _random_bits(generator, kind, count)
    if general:
        exponents = generator.integers(-3, 4, count) if op != "prod" else np.zeros(count, np.int64)
        values = np.ldexp(generator.uniform(0.5, 1.5, count) * generator.choice([-1.0, 1.0], count), exponents)
    elif op == "prod":
        # At most six factors of 2: exact in every type.
        values = generator.choice([-1.0, 1.0, 2.0] if position < 6 else [-1.0, 1.0], count)
    else:
        # Sums up to 256 are exact in bf16, the shortest.
        limit = max(1, 256 // n)
        values = generator.integers(-limit, limit + 1, count, np.int16).astype(np.float64)
    return _stored(values, kind)


def _stored(values: NDArray[np.float64], kind: DType) -> NDArray[Any]:
    return f32_to_bf16(values.astype(np.float32)) if kind.name == "bf16" else values.astype(kind.storage)


def expected(
    collective: ManifestCollective,
    inputs: Arrays,
    count: int,
    dtype: str,
    op: str | None = None,
    counts: Matrix | None = None,
) -> list[NDArray[Any] | None]:
    """Return what the outputs must be: exact types in their storage type, reduced floats in f64.

    Parts of an output that the collective does not define are zero.
    """
    kind = named(dtype)
    wide = collective.reduces and kind.kind is Kind.FLOAT
    storage = np.dtype(np.float64) if wide else kind.storage
    sizes = sizes_of(collective, count, counts)
    outputs = [
        None if units == 0 else np.zeros(sizes.outputs_end(index, units), storage)
        for index, units in enumerate(collective.output_units)
    ]
    for relation in definition(collective):
        operands = [_part(inputs, place, sizes.input(place)) for place in relation.inputs]
        value, _ = _evaluate(operands, relation, kind, op)
        for place in relation.outputs:
            _part(outputs, place, sizes.output(place))[:] = (
                value if relation.reduced or not wide else _wide(value, kind)
            )
    return outputs


def check(
    collective: ManifestCollective,
    inputs: Arrays,
    outputs: Arrays,
    count: int,
    dtype: str,
    op: str | None = None,
    limit: int = 16,
    counts: Matrix | None = None,
    only: int | None = None,
) -> Comparison:
    """Compare ``outputs`` with the definition on ``inputs``; list at most ``limit`` wrong elements.

    ``only``: the index of the one rank whose output is there.

    Moved data must have the same bits; reduced floats must be within the tolerance, and have the same bits on
    every rank that gets the same value.
    """
    kind = named(dtype)
    wrong = 0
    found: list[Mismatch] = []
    sizes = sizes_of(collective, count, counts)
    for relation in definition(collective):
        places = [place for place in relation.outputs if only in (None, place[0])]
        if not places:
            continue
        sources = [_part(inputs, place, sizes.input(place)) for place in relation.inputs]
        targets = [_part(outputs, place, sizes.output(place)) for place in places]
        for first in range(0, len(sources[0]), BLOCK):
            operands = [source[first : first + BLOCK] for source in sources]
            value, error = _evaluate(operands, relation, kind, op)
            results = [target[first : first + BLOCK] for target in targets]
            first_bad = _differs(results[0], value, error, kind, relation.reduced)
            for place, result in zip(places, results, strict=True):
                # Whatever has the same bits as on the first rank is right or wrong with it; other bits are wrong.
                bad = first_bad if result is results[0] else first_bad | _other_bits(result, results[0])
                wrong += int(np.count_nonzero(bad))
                for element in np.flatnonzero(bad)[: max(0, limit - len(found))]:
                    at = sizes.output(place).start + first
                    found.append(_mismatch(collective, place, at, int(element), value, result, kind))
    return Comparison(wrong, tuple(found))


def _part(arrays: Arrays, place: Place, where: slice) -> NDArray[Any]:
    array = arrays[place[0]]
    if array is None or len(array) < where.stop:
        raise ArgumentError(f"the array at position {place[0]} is missing, or shorter than {where.stop} elements")
    return array[where]


def _evaluate(
    operands: Sequence[NDArray[Any]], relation: Relation, kind: DType, op: str | None
) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Return the value, and for reduced floats how far a result may be from it."""
    if not relation.reduced:
        return operands[0], None
    if op is None or not kind.reducible:
        raise ArgumentError(f"a reduction needs an operator and a type that can be reduced, not {op} and {kind.name}")
    with np.errstate(all="ignore"):
        if kind.kind is not Kind.FLOAT:
            return _reduce_integers(operands, op), None
        return _reduce_floats([_wide(o, kind) for o in operands], kind, op)


def _reduce_integers(operands: Sequence[NDArray[Any]], op: str) -> NDArray[Any]:
    """Compute in the type itself: sums and products wrap."""
    table = np.stack(operands)
    if op == "min":
        return np.asarray(table.min(axis=0))
    if op == "max":
        return np.asarray(table.max(axis=0))
    if op == "prod":
        return np.asarray(np.multiply.reduce(table, axis=0, dtype=table.dtype))
    total = np.add.reduce(table, axis=0, dtype=table.dtype)
    if op == "sum":
        return np.asarray(total)
    # Toward zero, by Python's own integers, which cannot overflow.
    n = len(operands)
    rounded = [abs(int(x)) // n * (1 if x >= 0 else -1) for x in np.unique(total)]
    return np.asarray(rounded, table.dtype)[np.unique(total, return_inverse=True)[1].reshape(-1)]


def _reduce_floats(
    operands: Sequence[NDArray[np.float64]], kind: DType, op: str
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    n = len(operands)
    table = np.stack(operands)
    scale: NDArray[Any]
    if op in ("min", "max"):
        value = table.min(axis=0) if op == "min" else table.max(axis=0)  # NumPy's propagate NaN
        return value, np.zeros(value.shape)
    if op == "prod":
        value = np.multiply.reduce(table, axis=0)
        scale = np.abs(value)
    else:
        value = np.add.reduce(table, axis=0)
        scale = np.add.reduce(np.abs(table), axis=0)
        if op == "avg":
            value, scale = value / n, scale / n
    return value, tolerance(kind.name, op, n) * scale + (n + 1) * _SMALLEST[kind.name]


def _wide(values: NDArray[Any], kind: DType) -> NDArray[np.float64]:
    if kind.name == "bf16":
        return bf16_to_f32(values).astype(np.float64)
    return values.astype(np.float64)


def _differs(
    result: NDArray[Any], value: NDArray[Any], error: NDArray[np.float64] | None, kind: DType, reduced: bool
) -> NDArray[np.bool_]:
    if not reduced:
        return _other_bits(result, value)
    if error is None:
        return np.asarray(result != value)
    got = _wide(result, kind)
    with np.errstate(all="ignore"):
        near = np.asarray(np.abs(got - value) <= error)
        if near.all():
            return ~near
        beyond = np.abs(value) + error > _LARGEST[kind.name]  # may have become an infinity of the same sign
        infinite = np.isinf(got) & beyond & (np.sign(got) == np.sign(value))
    right = near | infinite | (got == value) | (np.isnan(got) & np.isnan(value))
    return np.asarray(~right)


def _other_bits(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    bits = f"u{one.dtype.itemsize}"
    return np.asarray(one.view(bits) != other.view(bits))


def _mismatch(
    collective: ManifestCollective,
    place: Place,
    begin: int,
    element: int,
    value: NDArray[Any],
    result: NDArray[Any],
    kind: DType,
) -> Mismatch:
    index, _ = place
    got = _wide(result[element : element + 1], kind)[0] if value.dtype == np.float64 else result[element]
    return Mismatch(collective.ranks[index], begin + element, _plain(value[element]), _plain(got))


def _plain(value: Any) -> float | int | str:
    item = value.item()
    return item if isinstance(item, int | float) else repr(item)

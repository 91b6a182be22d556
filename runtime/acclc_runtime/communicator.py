"""Groups of ranks that run an artefact's collectives. A local group has all ranks in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from acclc_runtime.arguments import CheckedCall, check_call
from acclc_runtime.backends.base import Call
from acclc_runtime.backends.registry import open_backend
from acclc_runtime.counts import lengths_told
from acclc_runtime.errors import ArgumentError
from acclc_runtime.locks import ProcessLock
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant
from acclc_runtime.selection import format_bytes, of_kind, of_name, size_bytes
from acclc_runtime.settings import debug_enabled, say, say_once, timeout_seconds
from acclc_runtime.tuning import Choices
from acclc_runtime.varying import check_varying_call

if TYPE_CHECKING:
    from acclc_runtime.backends.cpu import Event

Arrays = Sequence[Any]
"""One array a rank, in the order of the collective's ranks; None where a rank has no such buffer."""


class LocalGroup:
    """All ranks of an artefact in this process; a context manager. Made by ``Artefact.local``.

    Every method takes one array a rank and returns the list of outputs. ``outs=None`` allocates them;
    ``outs`` that are the inputs (or hold them, see ``in_place_view``) make the call in place. ``op=None`` is
    the operator that the source names, else sum. ``variant`` names a variant; else the size chooses.
    ``dtype`` names the element type where the array cannot (``dtype="bf16"`` for uint16).
    Calls of several threads run one after the other.

    Raises:
        ArgumentError: a call does not fit; nothing has moved.
        CollectiveTimeoutError, DeadlockError: the call did not end; outputs are undefined, the group is usable.
    """

    def __init__(
        self,
        artefact: Path,
        manifest: Manifest,
        backend: str = "cpu",
        *,
        timeout_s: float | None = None,
        fallback: bool | None = None,
        **options: object,
    ) -> None:
        self._manifest = manifest
        self._debug = debug_enabled()
        self._timeout_s, origin = timeout_seconds(timeout_s)
        if origin == "ACCLC_TIMEOUT":
            say(f"ACCLC_TIMEOUT: a wait without progress ends after {self._timeout_s:g} s")
        self._backend, self._note = open_backend(backend, artefact, options, fallback)
        self._choices = Choices.of(artefact, manifest, self._backend.name)
        self._lock = ProcessLock()
        self._closed = False
        self._said: set[str] = set()

    def __enter__(self) -> LocalGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the backend's memory and threads. The group cannot be used afterwards."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._backend.close()

    @property
    def backend(self) -> str:
        """The name of the backend that runs: numpy where it stands in for cpu."""
        return self._backend.name

    def all_gather(
        self, xs: Arrays, outs: Arrays | None = None, *, variant: str | None = None, dtype: str | None = None
    ) -> list[Any]:
        """Each rank gets all ranks' inputs, in group order. In place: xs[i] is rank i's part of outs[i]."""
        return self._run(self._of_kind("all_gather"), xs, outs, None, variant, dtype)

    def reduce_scatter(
        self,
        xs: Arrays,
        op: str | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """Rank i gets part i of the reduction of all inputs. In place: outs[i] is rank i's part of xs[i]."""
        return self._run(self._of_kind("reduce_scatter"), xs, outs, op, variant, dtype)

    def all_reduce(
        self,
        xs: Arrays,
        op: str | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """Each rank gets the reduction of all inputs. In place: outs = xs."""
        return self._run(self._of_kind("all_reduce"), xs, outs, op, variant, dtype)

    def broadcast(
        self,
        xs: Arrays,
        root: int | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """Each rank gets the input of the root (a global rank); others' inputs are ignored. In place: outs = xs."""
        return self._run(self._of_kind("broadcast", root), xs, outs, None, variant, dtype)

    def reduce(
        self,
        xs: Arrays,
        op: str | None = None,
        root: int | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """The root gets the reduction of all inputs; the others get None. In place: outs = xs."""
        return self._run(self._of_kind("reduce", root), xs, outs, op, variant, dtype)

    def gather(
        self,
        xs: Arrays,
        root: int | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """The root gets all inputs in group order, the others None. In place: xs[root] is its part of outs[root]."""
        return self._run(self._of_kind("gather", root), xs, outs, None, variant, dtype)

    def scatter(
        self,
        xs: Arrays,
        root: int | None = None,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """Rank i gets part i of the root's input. In place: outs[root] is its part of xs[root]."""
        return self._run(self._of_kind("scatter", root), xs, outs, None, variant, dtype)

    def all_to_all(
        self, xs: Arrays, outs: Arrays | None = None, *, variant: str | None = None, dtype: str | None = None
    ) -> list[Any]:
        """Part j of rank i's input becomes part i of rank j's output."""
        return self._run(self._of_kind("all_to_all"), xs, outs, None, variant, dtype)

    def all_to_all_v(
        self,
        xs: Arrays,
        counts: Any,
        outs: Arrays | None = None,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> list[Any]:
        """``counts[i][j]`` elements go from rank i to rank j (group ranks); zeros are fine.

        Inputs lie in order of destination, outputs in order of source, without gaps. A rank that sends or gets nothing
        may have None.
        """
        return self._run(self._of_kind("all_to_all_v"), xs, outs, None, variant, dtype, counts)

    def send_recv(
        self, xs: Arrays, outs: Arrays | None = None, *, variant: str | None = None, dtype: str | None = None
    ) -> list[Any]:
        """Each pair's source sends count elements to its destination."""
        return self._run(self._of_kind("send_recv"), xs, outs, None, variant, dtype)

    def collective(
        self,
        name: str,
        inputs: Arrays | None = None,
        outputs: Arrays | None = None,
        op: str | None = None,
        variant: str | None = None,
        dtype: str | None = None,
        counts: Any = None,
    ) -> list[Any]:
        """Run the collective of that name: any, custom ones and several together included.

        ``counts``: see :meth:`all_to_all_v`.
        """
        return self._run(self._named(name), inputs, outputs, op, variant, dtype, counts)

    def devices(self, name: str) -> list[int] | None:
        """Return the CUDA device of each rank of a collective: where its buffers must lie. None on the host."""
        find = getattr(self._backend, "devices", None)
        return None if find is None else list(find(self._named(name)))

    def choice(self, name: str, nbytes: int) -> tuple[ManifestVariant, str]:
        """Return the variant that a call of S = ``nbytes`` takes, and why."""
        return self._choices.choose(self._named(name), nbytes)

    def events(self) -> tuple[Event, ...]:
        """Return what each block did when in the last call, of a group that was made with ``trace=True`` (cpu)."""
        find = getattr(self._backend, "events", None)
        return () if find is None else tuple(find())

    def describe(self, nbytes: int | None = None) -> str:
        """Return in words what runs, and for a size S in bytes which variant of each collective, and why."""
        lines = [f"{self._manifest.name} on {self._backend.describe()}"]
        if self._note:
            lines.append(f"note: {self._note}")
        lines.append(f"a wait without progress ends after {self._timeout_s:g} s")
        if nbytes is not None:
            lines += [self._choice_in_words(c, nbytes) for c in self._manifest.collectives]
        return "\n".join(lines)

    def _choice_in_words(self, collective: ManifestCollective, nbytes: int) -> str:
        head = f"{collective.name}, {format_bytes(nbytes)}"
        try:
            variant, reason = self._choices.choose(collective, nbytes)
        except ArgumentError as error:
            return f"{head}: {error}"
        return f"{head}: variant {variant.id} ({variant.strategy}){self._protocol(variant)}: {reason}"

    def _protocol(self, variant: ManifestVariant) -> str:
        """In words; numpy executes programs, which have none."""
        return "" if self._backend.name == "numpy" else f", protocol {variant.protocol}"

    def _of_kind(self, kind: str, root: int | None = None) -> ManifestCollective:
        return of_kind(self._manifest, kind, root)

    def _named(self, name: str) -> ManifestCollective:
        return of_name(self._manifest, name)

    def _run(
        self,
        collective: ManifestCollective,
        inputs: Arrays | None,
        outputs: Arrays | None,
        op: str | None,
        variant_name: str | None,
        dtype: str | None,
        counts: Any = None,
    ) -> list[Any]:
        if self._closed:
            raise ArgumentError("this group is closed; make another by local()")
        on_cuda = self._backend.name == "cuda"
        devices = self.devices(collective.name)
        lengths = lengths_told(collective, counts)
        if lengths is None:
            checked = check_call(self._manifest, collective, inputs, outputs, op, dtype, on_cuda, devices)
            nbytes = size_bytes(collective, checked.count, checked.dtype.item_bytes)
        else:
            checked = check_varying_call(
                self._manifest, collective, inputs, outputs, lengths, op, dtype, on_cuda, devices
            )
            nbytes = lengths.size * checked.dtype.item_bytes
        variant, reason = self._choices.take(collective, variant_name, nbytes)
        if self._debug:
            self._say_once(collective, variant, reason, checked, nbytes)
        if checked.count == 0:
            return checked.results
        input_bytes, output_bytes = checked.byte_arrays()
        call = Call(
            collective=collective,
            variant=variant,
            count=checked.count,
            dtype=checked.dtype.name,
            op=checked.op,
            inputs=input_bytes,
            outputs=output_bytes,
            in_place=checked.in_place,
            timeout_s=self._timeout_s,
            lengths=lengths,
        )
        with self._lock:
            if self._closed:
                raise ArgumentError("this group is closed; make another by local()")
            self._backend.run(call)
        return checked.results

    def _say_once(
        self, collective: ManifestCollective, variant: ManifestVariant, reason: str, checked: CheckedCall, nbytes: int
    ) -> None:
        where = f"variant {variant.id} on the {self._backend.name} backend{self._protocol(variant)}: {reason}"
        say_once(self._said, f"{collective.name}: {checked.words(nbytes)}: {where}")

"""What ``--set NAME=VALUE`` says to an importer: rates and latencies of classes, and what a file leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from acclc.diagnostics import Diagnostic, DiagnosticError, suggest
from acclc.importers.rates import GIGA, NVIDIA, SMP, XGMI
from acclc.syntax.units import BANDWIDTH_UNITS, LATENCY_UNITS, SIZE_UNITS

CLASSES = ("nvlink", "xgmi", "pcie", "smp", "net", "c2c", "lane")
"""Classes whose rate and latency may be set. ``pcie`` is for every PCIe class of the file."""

WORDS: dict[str, str] = {
    "gpu": "the generation of the GPUs: " + ", ".join([*NVIDIA, *XGMI]),
    "cpu": "what joins the sockets: " + ", ".join(SMP),
    "pcie-generation": "1 to 6, of links of 16 lanes",
    "matrix": "which matrix of a paste, from 1",
    "size": "the message size that TACCL's times are for: 1 MB",
    "scale": "by what TACCL's times were multiplied",
}
"""Other settings, and what they say."""

_CHOICES = {"gpu": (*NVIDIA, *XGMI), "cpu": tuple(SMP)}
MAX_DIGITS = 18


class Settings:
    """The settings of one import; it remembers which were of use.

    Raises:
        DiagnosticError: a text is not of the form NAME=VALUE, the name is unknown, or the value is none.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._rates: dict[str, Fraction] = {}
        self._latencies: dict[str, Fraction] = {}
        self._words: dict[str, str] = {}
        self._used: set[str] = set()
        for text in texts:
            self._add(text)

    def _add(self, text: str) -> None:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise _wrong(f"`{text}` is not of the form NAME=VALUE")
        if name in CLASSES:
            number, kind = _quantity(name, value)
            (self._rates if kind == "rate" else self._latencies)[name] = number
        elif name in WORDS:
            if name in _CHOICES and value.lower() not in _CHOICES[name]:
                near = suggest(value, _CHOICES[name])
                raise _wrong(
                    f"`{value}` is none of {', '.join(_CHOICES[name])}", f"did you mean `{near}`?" if near else None
                )
            self._words[name] = value.lower() if name in _CHOICES else value
        else:
            near = suggest(name, [*CLASSES, *WORDS])
            raise _wrong(
                f"there is no setting `{name}`",
                f"did you mean `{near}`?" if near else f"there are {', '.join([*CLASSES, *WORDS])}",
            )

    def rate(self, name: str) -> Fraction | None:
        """Bytes/s of a class, if it was set."""
        if name in self._rates:
            self._used.add(name)
        return self._rates.get(name)

    def latency(self, name: str) -> Fraction | None:
        """Seconds of a class, if it was set."""
        if name in self._latencies:
            self._used.add(name)
        return self._latencies.get(name)

    def word(self, name: str) -> str | None:
        """The text of another setting, if it was set."""
        if name in self._words:
            self._used.add(name)
        return self._words.get(name)

    def whole(self, name: str, low: int, high: int) -> int | None:
        """A setting that is a whole number. Raises DiagnosticError if it is not, or out of range."""
        text = self.word(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and low <= int(text) <= high):
            raise _wrong(f"`{name}={text}`: a whole number from {low} to {high} is needed")
        return int(text)

    def size(self) -> Fraction | None:
        """The setting ``size`` in bytes."""
        text = self.word("size")
        if text is None:
            return None
        number, unit = _split(text)
        if number is None or unit not in SIZE_UNITS:
            raise _wrong(f"`size={text}`: a size such as `1 MB` is needed")
        return number * SIZE_UNITS[unit]

    def scale(self) -> Fraction | None:
        """The setting ``scale``."""
        text = self.word("scale")
        if text is None:
            return None
        number, unit = _split(text)
        if number is None or unit:
            raise _wrong(f"`scale={text}`: a number is needed")
        return number

    def unused(self) -> Diagnostic | None:
        """What to say of settings that had nothing to act on."""
        left = [n for n in {**self._rates, **self._latencies, **self._words} if n not in self._used]
        if not left:
            return None
        names = ", ".join(f"`{n}`" for n in left)
        return Diagnostic("import-setting", f"nothing in this file takes the setting {names}", severity="warning")


def _quantity(name: str, value: str) -> tuple[Fraction, str]:
    number, unit = _split(value)
    if number is not None:
        if unit == "":
            return number * GIGA, "rate"
        if unit in BANDWIDTH_UNITS:
            return number * BANDWIDTH_UNITS[unit], "rate"
        if unit in LATENCY_UNITS:
            return number * LATENCY_UNITS[unit], "latency"
    raise _wrong(f"`{name}={value}`: a rate such as `22 GB/s` (or 22), or a latency such as `0.7 us`, is needed")


def _split(value: str) -> tuple[Fraction | None, str]:
    """Return (number above 0, unit), or (None, ...) where there is no such number."""
    digits = 0
    while digits < len(value) and (value[digits] in "0123456789."):
        digits += 1
    text = value[:digits]
    if not text.strip(".") or text.count(".") > 1 or len(text) > MAX_DIGITS:
        return None, ""
    number = Fraction(text.strip(".") if text.endswith(".") else text)
    return (number if number > 0 else None), value[digits:].strip()


def _wrong(message: str, help: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic("import-setting", f"--set: {message}", help=help))

"""The terminals of the grammar in words for people."""

from __future__ import annotations

from collections.abc import Collection

RESERVED = frozenset(
    {
        *("import", "topology", "link", "gpu", "switch", "host", "nic", "budget", "let", "for", "in", "of"),
        *("over", "at", "without", "on", "among", "as", "collective", "chunk", "need", "together", "with"),
        *("emit", "goal"),
    }
)
"""The words that can never be names; NAME in the grammar lists the same."""

_TOPOLOGY_STATEMENTS = ("LINK", "GPU", "SWITCH", "HOST", "NIC", "BUDGET", "LET", "FOR", "NAME")
_CUSTOM_STATEMENTS = ("CHUNK", "REDUCE", "NEED", "LET", "FOR")
_ITEMS = ("IMPORT", "TOPOLOGY", "COLLECTIVE", "TOGETHER", "GOAL", "EMIT", "NAME", "REDUCE")
_OPTIONS = (
    *("GOAL", "CHUNKS", "STEPS", "ROUNDS", "CHANNELS", "BLOCKS", "WITHIN", "ROOT", "OP", "RELAYS"),
    *("WEIGHT", "SYMMETRY", "PAIRS"),
)
_OPERATORS = ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "POWER")

OPTION_WORDS: tuple[str, ...] = tuple(name.lower() for name in _OPTIONS)
EMIT_WORDS: tuple[str, ...] = ("types", "ops", "arch", "protocols", "channels")
ITEM_WORDS: tuple[str, ...] = ("import", "topology", "collective", "together", "goal", "emit")
CUSTOM_WORDS: tuple[str, ...] = ("chunk", "reduce", "need", "let", "for")
TOPOLOGY_WORDS: tuple[str, ...] = ("link", "gpu", "switch", "host", "nic", "budget", "let", "for")

# A group is named when the parser would take every one of its terminals; the long ones at the end of the list.
_SHORT: tuple[tuple[tuple[str, ...], str], ...] = (
    (_OPERATORS, "an operator"),
    (("NUMBER", "NAME", "LPAR", "MINUS", "STAR"), "a link such as `g[0] <-> g[1]`"),
    (("NUMBER", "NAME", "LPAR", "MINUS"), "a number or an expression"),
)
_LONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        _TOPOLOGY_STATEMENTS,
        "a statement of a topology (`gpu g[8]`, `link nvlink { ... }`, `g[0] <-> g[1] : nvlink`, ...)",
    ),
    (_CUSTOM_STATEMENTS, "a statement of a collective (`chunk`, `reduce`, `need`, `let`, `for`)"),
    (_ITEMS, "an item (`topology`, `import`, `collective`, `all_gather on ...`, ...)"),
    (_OPTIONS, "an option (`goal`, `chunks up to`, `within`, `root`, `op`, ...)"),
)

_SINGLE: dict[str, str] = {
    "BOTH": "`<->`",
    "FORWARD": "`->`",
    "RANGE_EXCLUSIVE": "`..<`",
    "RANGE_INCLUSIVE": "`..`",
    "COLON": "`:` and the class of the link",
    "COMMA": "`,`",
    "DOT": "`.`",
    "EQUAL": "`=`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a text in double quotes",
    "UNIT": "a unit",
    "UP_TO": "`up to`",
    "BOTH_WAYS": "`both ways`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "SLASH": "`/`",
    "PERCENT": "`%`",
    "POWER": "`**`",
    "$END": "the end of the text",
}


def in_words(accepted: Collection[str]) -> str:
    """Return what the parser would take here, for people: ``a, b or c``."""
    left = set(accepted)
    long = _named(left, _LONG)
    short = _named(left, _SHORT)
    if long:
        left.discard("$END")
    single = [phrase for name, phrase in _SINGLE.items() if name in left]
    single += sorted(f"`{name.lower()}`" for name in left - _SINGLE.keys())
    return one_of(short + single + long)


def _named(left: set[str], groups: tuple[tuple[tuple[str, ...], str], ...]) -> list[str]:
    """Return the phrases of the groups that ``left`` holds, and take their terminals out of it."""
    phrases: list[str] = []
    for group, phrase in groups:
        if left.issuperset(group):
            phrases.append(phrase)
            left.difference_update(group)
    return phrases


def one_of(words: Collection[str]) -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last

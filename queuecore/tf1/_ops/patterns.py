r"""Regular expressions of graphs, by Python's `re`.

TensorFlow's are RE2's. Where the same letters mean different things to the two, a pattern is translated: ``$`` and
``\z`` end the text, classes have names such as ``[:alpha:]``, ``\p{Lu}`` and ``\PL`` are classes of Unicode, and right
behind a match no empty one is found.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable

from queuecore.errors import InvalidArgumentError

__all__ = ["compiled", "replacing"]

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\[pP](?P<unicode>\{\^?\w*\}|\w)|\\.|\[:(?P<name>\w+):\]|.", re.DOTALL)
_CATEGORY_NAMES = "Cc Cf Co Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs"
_LINES = re.compile(r"\(\?[a-z]*m")  # a flag by which $ ends lines


def _ranges_anew(category: str, other: bool) -> str:
    # The characters of a category of Unicode, or all others, as they stand between brackets.
    categories = {one for one in _CATEGORY_NAMES.split() if one.startswith(category)}
    if not category or not categories:
        raise re.error(f"invalid character class range: \\p{{{category}}}")
    ranges: list[list[int]] = []
    for point in range(sys.maxunicode + 1):
        found = unicodedata.category(chr(point))
        if found != "Cs" and (found in categories) != other:
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


# A category is looked for among all characters of Unicode, which takes a moment.
_ranges = functools.lru_cache(64)(_ranges_anew)


def _translated(pattern: str) -> str:
    parts: list[str] = []
    inside = False
    lines = _LINES.search(pattern) is not None
    last_token = ""
    for found in _TOKEN.finditer(pattern):
        token, name = found[0], found["name"]
        if found["unicode"] is not None:
            category = found["unicode"].strip("{}")
            other = (token[1] == "P") != category.startswith("^")
            characters = _ranges(category.lstrip("^"), other)
            parts.append(characters if inside else f"[{characters}]")
        elif name is not None and inside:
            if name not in _CLASSES:
                raise re.error(f"invalid character class range: {token}")
            parts.append(_CLASSES[name])
        elif name is not None:
            parts.append(token)
        elif inside:
            inside = token != "]" or last_token in ("[", "[^")
            parts.append(f"\\{token}" if token in "[&~|" else token)
            last_token = last_token + token if last_token == "[" and token == "^" else token + " "
            continue
        elif token == "$" and not lines or token == r"\z":
            parts.append(r"\Z")
        elif token == r"\Z":
            raise re.error(r"invalid escape sequence: \Z")
        else:
            inside = token == "["
            parts.append(token)
        last_token = token
    return "".join(parts)


def _compiled_anew(pattern: bytes) -> re.Pattern[str]:
    try:
        return re.compile(_translated(pattern.decode(errors="surrogateescape")), re.ASCII)
    except re.error as error:
        shown = pattern.decode(errors="backslashreplace")
        raise InvalidArgumentError(f"Invalid pattern: {shown}, error: {error}") from error


# Patterns stay the same from element to element. Not a decorator: type checkers would lose the parameters.
_remembered = functools.lru_cache(256)(_compiled_anew)


def compiled(pattern: bytes) -> re.Pattern[str]:
    """Return a pattern for text. `InvalidArgumentError`: there is no such pattern."""
    return _remembered(pattern)


def replacing(pattern: re.Pattern[str], rewrite: bytes, all_of_them: bool) -> Callable[[str], str]:
    r"""Return a function that replaces what a pattern matches.

    Parameters
    ----------
    pattern : re.Pattern
    rewrite : bytes
        ``\0`` to ``\9`` are what groups matched, and ``\\`` is a backslash.
    all_of_them : bool
        Whether it replaces each match, or the first one.

    Raises
    ------
    InvalidArgumentError
        If the pattern has no such group, or something else follows a backslash.
    """
    parts: list[str | int] = []
    for token in re.findall(r"\\.?|[^\\]+", rewrite.decode(errors="surrogateescape"), re.DOTALL):
        if token[0] != "\\" or token == "\\\\":
            parts.append(token[:1] if token[0] == "\\" else token)
        elif token[1:].isdecimal() and token.isascii() and int(token[1:]) <= pattern.groups:
            parts.append(int(token[1:]))
        else:
            raise InvalidArgumentError(
                f"invalid rewrite pattern: {rewrite!r}: {token} is no group of {pattern.pattern!r}"
            )

    def replace(text: str) -> str:
        pieces: list[str] = []
        position = 0
        behind = -1
        for match in pattern.finditer(text):
            if match.start() == match.end() == behind:
                continue
            pieces.append(text[position : match.start()])
            pieces += [part if isinstance(part, str) else match[part] or "" for part in parts]
            position = behind = match.end()
            if not all_of_them:
                break
        return "".join(pieces) + text[position:]

    return replace

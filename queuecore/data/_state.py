"""Saved positions: plain dicts that survive JSON, and the checks that keep one from being used where it doesn't fit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from queuecore.errors import InvalidArgumentError, ResumeMismatchError

__all__ = ["Position", "pack", "unpack"]

_FORMAT = "queuecore.data.Iterator"
_VERSION = 2
_STAGE = "resume"


@dataclass(frozen=True)
class Position:
    """What a state says, once it is known to fit.

    Attributes
    ----------
    elements : int
        Elements delivered.
    iterations : list of int
        For every shuffle, the number of its passes that had begun before this iterator.
    begun : list of int
        For every shuffle, the number of its passes that have begun since.
    files_known : int
        Files that had been opened and measured.
    files_digest : int
        Digest of their sizes and times.
    seeds : list of tuple of int
        The pair of every shuffle.
    start : list of int or None
        Where to begin to read, if records have no known places.
    missing : list of list of int
        Pass and number of records that are left out.
    """

    elements: int
    iterations: list[int]
    begun: list[int]
    files_known: int
    files_digest: int
    seeds: list[tuple[int, int]]
    start: list[int] | None
    missing: list[list[int]]


def _hex(number: int) -> str:
    # As text: most readers of JSON keep only 53 bits of a number.
    return f"{number & (2**64 - 1):016x}"


def _check(state: Mapping[str, Any]) -> str:
    body = {key: value for key, value in state.items() if key != "check"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=8).hexdigest()


def pack(
    plan: dict[str, Any], names: tuple[int, int], seeds: list[tuple[int, int]], at: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the state for a position.

    Parameters
    ----------
    plan : dict
        What decides the order, as plain values.
    names : tuple of int
        Number of files and digest of their names.
    seeds : list of tuple of int
        The pair of every shuffle.
    at : mapping
        What the stream says of its position.
    """
    state = {
        "format": _FORMAT,
        "version": _VERSION,
        "plan": plan,
        "files": {"count": names[0], "names": _hex(names[1])},
        "seeds": [list(pair) for pair in seeds],
        "position": {
            "elements": int(at["elements"]),
            "iterations": list(at["iterations"]),
            "begun": list(at["begun"]),
            "files_known": int(at["files_known"]),
            "files_digest": _hex(int(at["files_digest"])),
            "start": at["start"],
            "missing": at["missing"],
        },
    }
    # A copy through JSON: the caller may change its state at will, and sees at once what a file would give back.
    copy: dict[str, Any] = json.loads(json.dumps(state))
    copy["check"] = _check(copy)
    return copy


def unpack(
    state: Any, plan: dict[str, Any], names: tuple[int, int], seeds: list[tuple[tuple[int, int], bool]]
) -> Position:
    """Return the position in a state, or raise if the state is damaged or belongs to something else.

    Parameters
    ----------
    state : object
        What the user gave.
    plan, names
        As in `pack`, of the dataset at hand.
    seeds : list
        Of every shuffle: its pair, and whether the user decided it. Where not, that of the state is taken.
    """
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(f"a state is a dict as state_dict() returns it, not {type(state).__name__}")
    name = state.get("format")
    if not isinstance(name, str) or name != _FORMAT:
        raise ResumeMismatchError("this is no state of a queuecore.data iterator", stage=_STAGE)
    version = state.get("version")
    if type(version) is not int or version != _VERSION:
        raise ResumeMismatchError(
            f"the state has version {version!r}; this queuecore reads version {_VERSION}", stage=_STAGE
        )
    plain: dict[str, Any] = {}
    try:
        # Through JSON and back: tuples that some store made of the lists compare equal again.
        plain = json.loads(json.dumps(dict(state)))
        intact = plain.get("check") == _check(plain) and _is_state(plain)
    except (TypeError, ValueError, RecursionError):
        intact = False
    if not intact:
        raise ResumeMismatchError("the state is damaged: its check doesn't match its content", stage=_STAGE)

    here = json.loads(json.dumps(plan))
    at = _regrouped(plain, here)
    if at is None:
        difference = _first_difference(plain["plan"], here, "")
        raise ResumeMismatchError(f"the state is of another dataset: {difference}", stage=_STAGE)
    if plain["files"] != {"count": names[0], "names": _hex(names[1])}:
        there = plain["files"]["count"]
        what = f"{there} of them, here {names[0]}" if there != names[0] else "as many as here, with other names"
        raise ResumeMismatchError(f"the state is of other files: {what}", stage=_STAGE)

    pairs = [(low, high) for low, high in plain["seeds"]]
    if not len(pairs) == len(at["iterations"]) == len(at["begun"]) == len(seeds):
        raise ResumeMismatchError("the state is damaged: it is not of as many shuffles as its plan has", stage=_STAGE)
    for index, (pair, (own, seeded)) in enumerate(zip(pairs, seeds, strict=True)):
        if seeded and pair != own:
            raise ResumeMismatchError(
                f"the state is of another seed: shuffle {index} has {pair} there and {own} here", stage=_STAGE
            )
    return Position(
        at["elements"],
        at["iterations"],
        at["begun"],
        at["files_known"],
        int(at["files_digest"], 16),
        pairs,
        at["start"],
        at["missing"],
    )


def _regrouped(state: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any] | None:
    """Return the position of a state in a plan that differs in no more than the sizes of its last groups, or `None`.

    Batches and shards at the end of a plan take as many elements of what comes before them as their sizes' product, a
    shard together with all others. So the place of one is a place of the other, if that many make whole elements there.
    """
    there: dict[str, Any] = state["plan"]
    at: dict[str, Any] = state["position"]
    if there == plan:
        return at
    steps, own = there.get("ops"), plan.get("ops")
    if {**there, "ops": None} != {**plan, "ops": None} or not isinstance(steps, list) or not isinstance(own, list):
        return None
    if len(steps) != len(own):
        return None
    sizes = [1, 1]
    changed = resharded = False
    for old, new in zip(steps, own, strict=True):
        match old, new:
            case (["batch", int(first), drop], ["batch", int(second), other]) if first > 0 and drop == other:
                pass
            case (["shard", int(first), int(), uneven], ["shard", int(second), int(), other]) if (
                first > 0 and uneven == other
            ):
                resharded = resharded or old != new
            case _:
                if old != new or (changed and new[0] != "map"):
                    return None
                continue
        changed = changed or old != new
        sizes = [sizes[0] * first, sizes[1] * second]
    if resharded and at["missing"]:
        raise ResumeMismatchError(
            "the state is of another shard, and that one has left out bad records, which the others count", stage=_STAGE
        )
    elements, rest = divmod(at["elements"] * sizes[0], sizes[1])
    if rest or elements >= 1 << 62:
        raise ResumeMismatchError(
            f"the state is of other batches or shards: its {at['elements']} elements take {at['elements'] * sizes[0]} "
            f"of what comes before, {sizes[0]} each, and here an element takes {sizes[1]}: that is no whole number",
            stage=_STAGE,
        )
    return {**at, "elements": elements}


def _is_state(state: Any) -> bool:
    """Return whether everything that a state has is there, and of the right kind."""
    match state:
        case {
            "plan": dict(),
            "files": {"count": int(), "names": str()},
            "seeds": [*pairs],
            "position": {
                "elements": int(elements),
                "iterations": [*iterations],
                "begun": [*begun],
                "files_known": int(known),
                "files_digest": str(digest),
                "start": start,
                "missing": [*missing],
            },
        }:
            numbers = [elements, known, *iterations, *begun]
            return (
                all(isinstance(pair, list) and len(pair) == 2 and _are_numbers(pair, 64) for pair in pairs)
                and _are_numbers(numbers, 62)
                and re.fullmatch("[0-9a-f]{16}", digest) is not None
                and (start is None or _is_start(start))
                and all(isinstance(pair, list) and len(pair) == 2 and _are_numbers(pair, 62) for pair in missing)
                and missing == sorted(missing)
            )
    return False


def _is_start(start: Any) -> bool:
    # Pass, record, good records before it, those of a whole pass (-1: unknown); of its block: file, offset, number
    # (below 0: of a header), line, record.
    return (
        isinstance(start, list)
        and len(start) >= 9
        and all(isinstance(one, int) for one in start)
        and _are_numbers([*start[:3], start[3] + 1, *start[4:6], start[6] + 2**60, *start[7:9]], 62)
        and start[2] <= start[1]
        and start[8] <= start[1]
        and _are_lanes(start[9:])
    )


def _are_lanes(saved: list[int]) -> bool:
    # Interleaved files: next file, slot, records of its turn; of each slot: file (-1: none), offset, number, line,
    # records.
    slots = [saved[at : at + 5] for at in range(3, len(saved), 5)]
    return not saved or (
        len(saved) > 3
        and len(slots[-1]) == 5
        and _are_numbers(saved[:3], 62)
        and all(_are_numbers([slot[0] + 1, slot[1], slot[2] + 2**60, *slot[3:]], 62) for slot in slots)
    )


def _are_numbers(values: list[Any], bits: int) -> bool:
    return all(isinstance(value, int) and 0 <= value < 1 << bits for value in values)


def _first_difference(there: Any, here: Any, where: str) -> str:
    """Return words for the first place where two plans differ, or an empty string."""
    if there == here:
        return ""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            found = _first_difference(there.get(key), here.get(key), f"{where}.{key}" if where else key)
            if found:
                return found
    if isinstance(there, list) and isinstance(here, list) and where == "ops":
        for index in range(max(len(there), len(here))):
            steps = [_step(side[index]) if index < len(side) else "nothing" for side in (there, here)]
            if steps[0] != steps[1]:
                return f"step {index + 1} is {steps[0]} there and {steps[1]} here"
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for index, (one, other) in enumerate(zip(there, here, strict=True)):
            if one != other and isinstance(one, dict) and isinstance(other, dict):
                return _first_difference(one, other, f"{where}[{index}]")
    return f"{where} is {there!r} there and {here!r} here"


def _step(op: Any) -> str:
    if not isinstance(op, list) or not op:
        return repr(op)
    return f"{op[0]}({', '.join(str(value) for value in op[1:])})"

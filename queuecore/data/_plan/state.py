"""Saved positions: plain dicts that survive JSON, and the checks that keep one from being used where it doesn't fit."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from queuecore._core.stream.marks import Mark, Saved
from queuecore.data._plan.identity import Stamps, ends_of
from queuecore.errors import InvalidArgumentError, ResumeMismatchError

__all__ = ["Position", "pack", "unpack"]

_FORMAT = "queuecore.data.Iterator"
_VERSION = 2
_STAGE = "resume"
# Most numbers that one cut may have: two for each node below the other.
_DEEPEST = 2000
# Numbers of a fault: without a text, and with one.
_FAULT = (9, 15)
_PLACES = (("handed", (2,)), ("breaks", (3, *(3 + n for n in _FAULT))), ("seams", (3,)), ("told", (2,)))


@dataclass(frozen=True)
class Position:
    """The contents of a state that is known to fit.

    Attributes
    ----------
    place : Saved
        The place in the stream, of which the state's `orders` and `stamps` are not a part.
    seeds : list of tuple of int
        The pair of every shuffle.
    orders : dict
        The order of elements where it isn't kept, by the node's place among the inputs.
    cuts : list of list of int
        Where errors have cut batches of objects short.
    ends : list of list of list of int
        Where errors have ended what shuffles of inputs take their elements from: see `Cuts.ends`.
    stamps : Stamps or None
        The files of the state. `None`: there are none, or the state is older than stamps.
    """

    place: Saved
    seeds: list[tuple[int, int]]
    orders: dict[str, Any]
    cuts: list[list[int]]
    ends: list[list[list[int]]]
    stamps: Stamps | None


def _hex(number: int) -> str:
    # As text: most readers of JSON keep only 53 bits of a number.
    return f"{number & (2**64 - 1):016x}"


def _check(state: Mapping[str, Any]) -> str:
    body = {key: value for key, value in state.items() if key != "check"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=8).hexdigest()


def pack(
    plan: dict[str, Any],
    names: tuple[int, int],
    seeds: list[tuple[int, int]],
    saved: Saved,
    orders: dict[str, Any],
    cuts: list[list[int]],
    ends: list[list[list[int]]],
    stamps: Stamps | None = None,
) -> dict[str, Any]:
    """Return the state for a position.

    Parameters
    ----------
    plan : dict
        Plain values that decide the order.
    names : tuple of int
        Number of files and digest of their names.
    seeds : list of tuple of int
        The pair of every shuffle.
    saved : Saved
        The place of the stream.
    orders : dict
        The order of elements, where it isn't kept.
    cuts : list of list of int
        Where errors have cut batches of objects short.
    ends : list of list of list of int
        Where errors have ended what shuffles of inputs take their elements from: see `Cuts.ends`.
    stamps : Stamps, optional
        The files that the position depends on.
    """
    sometimes = {
        "handed": saved.handed,
        "breaks": saved.breaks,
        "seams": saved.seams,
        "told": saved.told,
        "ended": saved.ended,
        "lengths": saved.lengths,
        "orders": orders,
        "cuts": cuts,
        "ends": ends,
    }
    state = {
        "format": _FORMAT,
        "version": _VERSION,
        "plan": plan,
        "files": {"count": names[0], "names": _hex(names[1])},
        "seeds": [list(pair) for pair in seeds],
        "position": {
            "elements": saved.elements,
            "iterations": saved.iterations,
            "begun": saved.begun,
            "files_known": saved.files_known,
            "files_digest": _hex(saved.files_digest),
            "start": None if saved.mark is None else saved.mark.numbers(),
            "missing": saved.missing,
            # Only where there is something to say.
            **{name: value for name, value in sometimes.items() if value},
        },
    }
    if stamps is not None:
        state["stamps"] = stamps._asdict()
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
        The user's state.
    plan, names
        As in `pack`, of the dataset at hand.
    seeds : list
        For every shuffle, its pair, and whether the user decided it. If not, the pair of the state is taken.
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
    position = _regrouped(plain, here)
    if position is None:
        difference = first_difference(plain["plan"], here, "")
        raise ResumeMismatchError(f"the state is of another dataset: {difference}", stage=_STAGE)
    if plain["files"] != {"count": names[0], "names": _hex(names[1])}:
        there = plain["files"]["count"]
        what = f"{there} of them, here {names[0]}" if there != names[0] else "as many as here, with other names"
        raise ResumeMismatchError(f"the state is of other files: {what}", stage=_STAGE)

    pairs = [(low, high) for low, high in plain["seeds"]]
    if not len(pairs) == len(position["iterations"]) == len(position["begun"]) == len(seeds):
        raise ResumeMismatchError("the state is damaged: it is not of as many shuffles as its plan has", stage=_STAGE)
    for index, (pair, (own, seeded)) in enumerate(zip(pairs, seeds, strict=True)):
        if seeded and pair != own:
            raise ResumeMismatchError(
                f"the state is of another seed: shuffle {index} has {pair} there and {own} here", stage=_STAGE
            )
    place = Saved()
    place.elements = position["elements"]
    place.iterations = position["iterations"]
    place.begun = position["begun"]
    place.files_known = position["files_known"]
    place.files_digest = int(position["files_digest"], 16)
    place.mark = None if position["start"] is None else Mark.of(position["start"])
    place.missing = position["missing"]
    place.lengths = position.get("lengths", [])
    place.handed = position.get("handed", [])
    place.breaks = position.get("breaks", [])
    place.seams = position.get("seams", [])
    place.told = position.get("told", [])
    place.ended = position.get("ended", [])
    stamps = Stamps(**plain["stamps"]) if "stamps" in plain else None
    return Position(
        place, pairs, position.get("orders", {}), position.get("cuts", []), position.get("ends", []), stamps
    )


def _regrouped(state: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any] | None:
    """Return the position of a state in a plan that differs in no more than the sizes of its last groups, or `None`.

    Batches and shards at the end of a plan take as many elements of what comes before them as their sizes' product, a
    shard together with all others. So the place of one is a place of the other, if that many make whole elements there.
    """
    saved_plan: dict[str, Any] = state["plan"]
    position: dict[str, Any] = state["position"]
    if saved_plan == plan:
        return position
    old_steps, new_steps = saved_plan.get("ops"), plan.get("ops")
    if (
        {**saved_plan, "ops": None} != {**plan, "ops": None}
        or not isinstance(old_steps, list)
        or not isinstance(new_steps, list)
    ):
        return None
    if len(old_steps) != len(new_steps):
        return None
    sizes = [1, 1]
    changed = resharded = False
    for old, new in zip(old_steps, new_steps, strict=True):
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
    if resharded and position["missing"]:
        raise ResumeMismatchError(
            "the state is of another shard, and that one has left out bad records, which the others count", stage=_STAGE
        )
    if any(position.get(name) for name in ("handed", "breaks", "seams", "told", "ended", "cuts", "ends")):
        raise ResumeMismatchError(
            "the state is of other batches or shards, and errors have cut some of these short", stage=_STAGE
        )
    inputs = position["elements"] * sizes[0]
    elements, rest = divmod(inputs, sizes[1])
    if rest or elements >= 1 << 62:
        raise ResumeMismatchError(
            f"the state is of other batches or shards: its {position['elements']} elements take {inputs} of "
            f"what comes before, {sizes[0]} each, and here an element takes {sizes[1]}: that is no whole number",
            stage=_STAGE,
        )
    return {**position, "elements": elements}


def _is_state(state: Any) -> bool:
    """Return whether a state has every entry, each of the right type."""
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
                and (start is None or Mark.of(start) is not None)
                and all(isinstance(pair, list) and len(pair) == 2 and _are_numbers(pair, 62) for pair in missing)
                and missing == sorted(missing)
                and all(_are_places(state["position"].get(name, []), sizes) for name, sizes in _PLACES)
                and _are_lengths(state["position"].get("lengths", []))
                and isinstance(state["position"].get("orders", {}), dict)
                and _are_cuts(state["position"].get("cuts", []), 4)
                and _are_ends_below(state["position"].get("ends", []))
                and _are_ends(state["position"].get("ended", []))
                and ("stamps" not in state or _are_stamps(state["stamps"]))
            )
    return False


def _are_stamps(stamps: Any) -> bool:
    match stamps:
        case {"by": "stat" | "content", "files": int(files), "groups": [*groups], **more}:
            return (
                not more
                and 0 < files < 1 << 62
                and len(groups) == len(ends_of(files))
                and all(isinstance(one, str) and re.fullmatch("[0-9a-f]{16}", one) is not None for one in groups)
            )
    return False


def _are_lengths(lengths: Any) -> bool:
    return (
        isinstance(lengths, list)
        and all(isinstance(one, list) and len(one) == 2 and all(isinstance(n, int) for n in one) for one in lengths)
        and _are_numbers([one[0] for one in lengths] + [one[1] + 1 for one in lengths], 62)
        and all(one[0] < other[0] for one, other in itertools.pairwise(lengths))
    )


def _are_places(places: Any, sizes: tuple[int, ...]) -> bool:
    return (
        isinstance(places, list)
        and all(isinstance(one, list) and len(one) in sizes and _are_numbers(one[:3], 62) for one in places)
        and all(_is_fault(one[3:]) for one in places)
        and places == sorted(places)
    )


def _are_cuts(cuts: Any, least: int) -> bool:
    return isinstance(cuts, list) and all(
        isinstance(one, list) and len(one) % 2 == 0 and least <= len(one) < _DEEPEST and _are_numbers(one, 62)
        for one in cuts
    )


def _are_ends(ends: Any) -> bool:
    return isinstance(ends, list) and all(
        isinstance(one, list)
        and (len(one) == 2 or (len(one) - 3 in _FAULT and _are_numbers(one[2:3], 1)))
        and _are_numbers(one[:2], 62)
        and _is_fault(one[3:])
        for one in ends
    )


def _are_ends_below(ends: Any) -> bool:
    return (
        isinstance(ends, list)
        and all(isinstance(one, list) and len(one) == 2 for one in ends)
        and _are_cuts([path for path, _ in ends], 2)
        and _are_ends([one for _, one in ends])
    )


def _is_fault(numbers: list[Any]) -> bool:
    # Code, errno, sentence and stage have 32 bits.
    return all(type(one) is int and -1 <= one >> (31 if at < 4 else 63) <= 0 for at, one in enumerate(numbers))


def _are_numbers(values: list[Any], bits: int) -> bool:
    return all(type(value) is int and 0 <= value < 1 << bits for value in values)


def first_difference(saved_plan: Any, this_plan: Any, place: str) -> str:
    """Return words for the first place where two plans differ, or an empty string."""
    if saved_plan == this_plan:
        return ""
    if isinstance(saved_plan, dict) and isinstance(this_plan, dict):
        for key in sorted({*saved_plan, *this_plan}):
            found = first_difference(saved_plan.get(key), this_plan.get(key), f"{place}.{key}" if place else key)
            if found:
                return found
    if isinstance(saved_plan, list) and isinstance(this_plan, list) and place == "ops":
        for index in range(max(len(saved_plan), len(this_plan))):
            steps = [_step(side[index]) if index < len(side) else "nothing" for side in (saved_plan, this_plan)]
            if steps[0] != steps[1]:
                return f"step {index + 1} is {steps[0]} there and {steps[1]} here"
    if isinstance(saved_plan, list) and isinstance(this_plan, list) and len(saved_plan) == len(this_plan):
        for index, (one, other) in enumerate(zip(saved_plan, this_plan, strict=True)):
            if one != other and isinstance(one, dict) and isinstance(other, dict):
                return first_difference(one, other, f"{place}[{index}]")
    return f"{place} is {saved_plan!r} there and {this_plan!r} here"


def _step(op: Any) -> str:
    if not isinstance(op, list) or not op:
        return repr(op)
    return f"{op[0]}({', '.join(str(value) for value in op[1:])})"

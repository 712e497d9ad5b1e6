"""Maps that run in Python, for each element.

Elements are Python objects here. A function is called in the thread of its node, or in several threads of Python; where
it waits or computes without the GIL (in NumPy, in files), these overlap.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from queuecore._checks.lazy import lazy
from queuecore._machine import cpus
from queuecore.data._nodes.calls import FunctionCall, StageCall
from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.orders import Tape
from queuecore.data._nodes.pool import FIRST_TUNED, MOST_THREADS, MOST_TUNED, Pool, Result
from queuecore.data._nodes.run import NodeRun, Opened, leave_out
from queuecore.data._plan.steps import Count
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.values import has_empty, same_structure, settled, shown, spec_of, typed_spec
from queuecore.data.options import Options
from queuecore.errors import InvalidArgumentError, QueueCoreError

__all__ = ["PythonMap"]

# Elements that are tried to find the structure of elements.
_MOST_TRIED = 100
# Seconds of a call below which handing it to another thread costs more than it brings; and how much calls must exceed
# that, all in all, before others get them.
_QUICK = 50e-6
_LATE = 0.002


@dataclass(frozen=True, eq=False)
class PythonMap(ObjectNode):
    """The results of a function for each element.

    Attributes
    ----------
    function : Call or StageCall
        The function.
    threads : int or None
        The threads that it runs in; `None`: the thread of the node. -1: as many as help, found by trying.
    ordered : bool or None
        Whether elements keep their order; `None`: as the options say.
    why : str
        Why the function isn't native.
    on_device : bool
        Whether the function is marked for a device, where it can't run.
    """

    name = "map"

    function: FunctionCall | StageCall
    threads: int | None
    ordered: bool | None
    why: str
    on_device: bool = False

    def words(self) -> dict[str, Any]:
        return {"function": self.function.name}

    def label(self) -> str:
        return f"map({self.function.name})"

    def where(self) -> str:
        how = "" if self.threads is None else f", in {'several' if self.threads < 0 else self.threads} threads"
        return f"Python, for each element{how}: {self.why}"

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].count(min_count)

    def leaves_free(self, options: Options) -> bool:
        ordered = options.deterministic is not False if self.ordered is None else self.ordered
        return self.threads is not None and not ordered

    @property
    def uses_up(self) -> bool:
        return True

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # If elements are left out, their number before an element shows only when they are made.
        first = start if run.skips is None else 0
        schema = types = None
        full_schema = None  # `schema`, if no type is missing in it: mostly the next structure is the same object
        skip_count = start - first
        tape = run.tape(pass_, Tape)
        results = self._results(run, pass_, first) if tape is None else self._noted(run, pass_, start, tape)
        with contextlib.closing(results) as results:
            for number, result, structure, error in results:
                same = full_schema is not None and structure is full_schema
                if error is None and not same and has_empty(structure):
                    result, structure = settled(result, structure, self._types if schema is None else types)
                if error is None and not same and (schema is None or not same_structure(structure, schema)):
                    if schema is None or has_empty(schema):
                        schema, types = structure, typed_spec(result, structure)
                        full_schema = None if has_empty(schema) else schema
                    else:
                        error = InvalidArgumentError(
                            f"map: {self.function.name} returns another structure than before: {shown(structure)}, "
                            f"and not {shown(schema)} (element {number})",
                            stage="map",
                            record=number,
                        )
                if error is not None:
                    yield from leave_out(run.skips, error, skip_count > 0)
                elif skip_count > 0:
                    skip_count -= 1
                else:
                    yield One(result)

    def _noted(self, run: NodeRun, pass_: int, start: int, tape: Tape) -> Generator[Result]:
        # First the elements that an earlier run gave already, in its order.
        assert run.orders is not None
        given = [*sorted(tape.beyond), *tape.log]
        numbers_gone = set(given[: max(start - tape.low, 0)])
        numbers_due = itertools.chain(range(start, tape.low), given[max(start - tape.low, 0) :])
        next_number = next(numbers_due, -1)  # the number that comes next; -1: any
        early_results: dict[int, Result] = {}
        input_count = None
        with contextlib.closing(self._results(run, pass_, min(start, tape.low))) as results:
            for result in results:
                if next_number >= 0 and 0 in run.used:  # a waiting result has used up something, and was not given
                    input_count = run.used.pop(0)
                if result.number in numbers_gone:
                    continue
                if next_number < 0:
                    run.orders.note(tape, result.number)
                    yield result
                    continue
                early_results[result.number] = result
                while next_number in early_results:
                    yield early_results.pop(next_number)
                    next_number = next(numbers_due, -1)
                while next_number < 0 and early_results:
                    number = min(early_results)
                    run.orders.note(tape, number)
                    yield early_results.pop(number)
                if input_count is not None and next_number < 0:
                    run.used[0], input_count = input_count, None
        for number in sorted(early_results):  # there are fewer than there were
            yield early_results[number]

    def _results(self, run: NodeRun, pass_: int, first: int) -> Generator[Result]:
        child = run.open(0, pass_, first)
        tuned = self.threads is not None and self.threads < 0
        if self.threads is None or tuned:
            first = yield from self._alone(child, pass_, first, tuned)
            if first < 0:
                return
        count = min(max(cpus(), FIRST_TUNED), MOST_TUNED) if tuned else min(self.threads or 1, MOST_THREADS)
        pool = Pool(self.function, child, pass_, first, count, tuned, run.worked.functions, 0 in run.used)
        if run.exact and not tuned:
            pool.keep_count()
        if 0 in run.used:
            run.used[0] = pool.used
        yield from pool.results(not run.leaves_free)

    def _alone(self, child: Opened, pass_: int, first: int, tuned: bool) -> Generator[Result, None, int]:
        """Yield the results made in this thread; return -1, or the first element that a pool should make."""
        function = self.function
        late_s = -math.inf  # the first call may have to import things, and tells nothing
        with contextlib.ExitStack() as stack:
            stack.enter_context(child)
            for number in itertools.count(first):
                try:
                    element = next(child)
                except StopIteration:
                    return -1
                except Exception as error:
                    if not child.goes_on:
                        raise
                    result = Result(number, None, None, error)
                    yield result
                    continue
                begin_s = time.monotonic()
                try:
                    made, structure = function(element, pass_, number)
                except BaseException as error:
                    result = Result(number, None, None, error)
                else:
                    result = Result(number, made, structure, None)
                late_s = max(late_s + time.monotonic() - begin_s - _QUICK, 0)
                yield result
                if late_s > _LATE and tuned:
                    stack.pop_all()
                    return number + 1
        return -1

    @property
    def _types(self) -> Any:
        """The specification of the first elements, for an empty list; `None` if it can't be made."""
        try:
            return self._first_spec
        except QueueCoreError:
            return None

    @lazy
    def _first_spec(self) -> Any:
        # The structure of the first element that can be made; if none of the first ones can, the error of the first.
        # Its empty lists get the types of the elements behind it.
        first: QueueCoreError | None = None
        sample: tuple[Any, Any] | None = None
        with contextlib.closing(self.trial().elements(0, 0, errors=True)) as elements:
            for number, element in enumerate(itertools.islice(elements, _MOST_TRIED)):
                try:
                    if isinstance(element, Failed):
                        raise element.error
                    made = self.function(element, 0, number)
                    sample = made if sample is None else settled(*sample, typed_spec(*made))
                    if not has_empty(sample[1]):
                        break
                except QueueCoreError as error:
                    first = first or error
        if sample is not None:
            return spec_of(sample[0])
        if first is not None:
            raise first
        return None

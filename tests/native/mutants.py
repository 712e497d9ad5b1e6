"""Mistakes in native code, those of the queues among them, and a copy of it that can make each of them.

The copy is compiled once: a number in the environment, read when an extension is loaded, says which mistake is made.
So the sources have no hooks, and one build serves all.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = Path("src/queuecore/_core")
VARIABLE = "QUEUECORE_MUTANT"
REST = " ..."
WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"#.*")

# What a mistake may say though the file's code doesn't.
KEYWORDS = {"False", "True", "and", "not", "or", "pass", "return"}


class Stale(Exception):
    """A mutant's text is not in the sources, or not once, or its mistake has a name that they haven't."""


@dataclass(frozen=True)
class Edit:
    """One place that goes wrong.

    `place` is a file below CORE and a function of it. `text` must be there once: a whole line, its indent and comment
    apart (ending in " ...": the rest of the line may be anything), which becomes `wrong`; or else an expression. A
    place that ends in "1/2" has two such lines, and the first one is meant.
    """

    place: str
    text: str
    wrong: str = "pass"


@dataclass(frozen=True)
class Mistake:
    """All that goes wrong at a time."""

    name: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Mutant(Mistake):
    """A mistake of the queues, and what shows it: whose threads, and which workload of helpers.queues.histories.

    "fibres": no threads, but the schedules of one scenario of testing.schedule_atoms.
    """

    threads: str
    workload: str


def row(name: str, seen: str, *edits: tuple[str, ...]) -> Mutant:
    return Mutant(name, tuple(Edit(*edit) for edit in edits), *seen.split())


MUTANTS = [
    # ---- who goes first
    row("a put goes past the line", "native balanced", ("atoms/ring.pxd _fifo_put", "p & 1 and not owner", "False")),
    row(
        "a get goes past the turn", "native balanced", ("atoms/ring.pxd fifo_pop_many", "h & 1 and not owner", "False")
    ),
    row(
        "rows are put between those of a put of many",
        "native rush",
        ("handoff/handoff.pxd put_try", "_store_push(h, token, key, False)", "_store_push(h, token, key, True)"),
    ),
    row(
        "a long put leaves the line between its pieces",
        "native pieces",
        ("handoff/handoff.pxd _run_line", "rc == HAND_DONE and op.more", "False"),
    ),
    row(
        "the turn is given back with rows at the front",
        "native gathers",
        ("handoff/handoff.pxd hand_leave", "side == SIDE_GET and h.front != NULL", "False"),
    ),
    row(
        "rows at the front come out the last first",
        "native hurried",
        (
            "handoff/handoff.pxd _run_get",
            "op.tokens[op.done] = run.tokens[run.at]",
            "op.tokens[op.done] = run.tokens[run.n - 1 - run.at]",
        ),
    ),
    # ---- the count of places
    row(
        "there is a place too many",
        "native short",
        ("handoff/handoff.pxd hand_init", "<uint32_t>h.ring_rows", "<uint32_t>(h.ring_rows + 1)"),
    ),
    row(
        "a put believes that nothing has been taken since it last looked",
        "fibres both_full",
        ("atoms/ring.pxd _fifo_put", "<int64_t>((p & ~<uint64_t>1) - h) >= room", "True"),
    ),
    row(
        "rows that are given back don't count",
        "native hurried",
        ("handoff/handoff.pxd _give_back", "_front_count(h, op.done)"),
    ),
    row(
        "rows that are given back count for ever",
        "native hurried",
        ("handoff/handoff.pxd _run_get", "_front_count(h, -1)"),
    ),
    # ---- what ends early
    row("a timeout takes rows along", "native hurried", ("handoff/handoff.pxd hand_leave", "_give_back(h, op)")),
    row("a gather at the end takes rows along", "native short", ("handoff/handoff.pxd _run_line", "_give_back(h, op)")),
    row(
        "a gather of up to n ends with nothing",
        "native short",
        ("handoff/handoff.pxd _run_get", "op.up_to and op.done > 0", "op.up_to"),
    ),
    row(
        "nobody acts for those behind one whose time ran out",
        "native behind",
        ("handoff/handoff.pxd hand_leave", "_flush(h, side, random)"),
        ("handoff/handoff.pxd hand_leave", "hand_settle(h, random)"),
    ),
    # ---- closing
    row("a close seals nothing", "native short", ("handoff/handoff.pxd _mark_closed", "_store_seal(h)")),
    row(
        "a close that cancels doesn't reach the lines",
        "native crowd",
        ("handoff/handoff.pxd hand_cancel", "hand_settle(h, random)"),
    ),
    row(
        "a row goes in after the seal",
        "native closing",
        ("atoms/ring.pxd _fifo_put", "ahead == 0 and <uint32_t>(x & TOKEN_MASK) == SEAL", "False"),
    ),
    row("a close doesn't seal a bag", "native shuffled", ("handoff/handoff.pxd _store_seal", "h.sealed = 1")),
    row(
        "a put that found the seal says that it is done",
        "native closing",
        ("handoff/handoff.pxd put_try", "HAND_CLOSED if rc == RING_SEALED else HAND_BUSY", "HAND_DONE"),
    ),
    row(
        "a ring that is grown out of isn't sealed",
        "native growing",
        ("handoff/handoff.pxd _store_grow", "fifo_seal(<FifoRing*>old)"),
    ),
    # ---- telling each other
    row(
        "who joins a line doesn't look", "native balanced", ("handoff/handoff.pxd hand_wait", "hand_settle(h, random)")
    ),
    row(
        "word that is left is not looked for again",
        "native balanced",
        ("handoff/handoff.pxd _flush", "True", "not has_moved"),
    ),
    row(
        "what one side let in is not told the other",
        "native balanced",
        (
            "handoff/handoff.pxd hand_settle",
            "has_moved = _flush(h, SIDE_PUT, random) or has_moved",
            "_flush(h, SIDE_PUT, random)",
        ),
    ),
    row("nobody is woken", "native one_by_one", ("handoff/handoff.pxd _flush", "futex_wake(wakes[i], 1)")),
    # ---- bags
    row(
        "a shuffle keeps nothing back",
        "native shuffled",
        ("handoff/handoff.pxd _bag_pop", "0 if h.sealed else h.least", "0"),
    ),
    row("rows are not given back to a bag", "native shuffled", ("handoff/handoff.pxd _bag_return", "_bag_put(h, ...")),
    row(
        "of equal priorities the last comes first",
        "native prioritised",
        ("handoff/handoff.pxd _before", "a.number < b.number", "a.number > b.number"),
    ),
    row(
        "rows are put between those of a priority queue's gather",
        "native sorted_gathers",
        ("handoff/handoff.pxd _run_get", "h.store == STORE_PRIORITY and count >= op.n", "False"),
    ),
    # ---- slots
    row(
        "the stack of free slots counts no changes",
        "fibres pool",
        ("atoms/pool.pxd pool_push", "((head >> 32) + 1)", "head >> 32"),
        ("atoms/pool.pxd pool_pop", "((head >> 32) + 1)", "head >> 32"),
    ),
    row(
        "a slot is free before it is copied",
        "python wide",
        ("handoff/queues.pyx dequeue_many", "count = op.done", "count = op.done; self._release(op.tokens, count)"),
        ("handoff/queues.pyx dequeue_many", "self._release(op.tokens, count)"),
    ),
    row(
        "a put of many that times out frees the slots that are in",
        "python short",
        (
            "handoff/queues.pyx enqueue_many",
            "self._release(op.tokens + op.done, filled - op.done)",
            "self._release(op.tokens, filled)",
        ),
    ),
    row(
        "a put that times out frees no slot, one that waited frees its own",
        "python short",
        ("handoff/queues.pyx _put", "self._release(tokens + op.done, n - op.done)", "self._release(tokens, op.done)"),
    ),
    # ---- the classes
    row(
        "what came in the last moment is a timeout all the same",
        "python hurried",
        (
            "handoff/queues.pyx _wait",
            "rc = hand_leave(self.hand, side, self.random, op)",
            "hand_leave(self.hand, side, self.random, op)",
        ),
    ),
    row(
        "a put tells nobody",
        "python one_by_one",
        ("handoff/queues.pyx enqueue", "rc == HAND_DONE and hand_unsettled(self.hand)", "False"),
    ),
    row(
        "a get tells nobody",
        "python filled",
        ("handoff/queues.pyx dequeue", "rc == HAND_DONE and hand_unsettled(self.hand)", "False"),
    ),
]

# In front of a file's first declaration.
SWITCH = f'''cdef extern from *:
    """
    #ifndef QC_MUTANT
    #define QC_MUTANT
    #include <cstdlib>
    #include <unistd.h>
    static const int qc_mutant = std::atoi(std::getenv("{VARIABLE}"));
    static inline void qc_pause() {{ usleep(300); }}
    #endif
    """
    const int qc_mutant
    void qc_pause() noexcept nogil

'''


def _function(lines: list[str], name: str) -> range:
    """Return where the body of a function lies."""
    heads = [i for i, text in enumerate(lines) if re.match(rf" *(cdef|cpdef|def) [^(=]*\b{name}\(", text)]
    if len(heads) != 1:
        raise Stale(f"{len(heads)} functions {name}")
    begin = heads[0]
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    end = begin + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
        end += 1
    return range(begin + 1, end)


def mutated(file: str, text: str, mutants: Sequence[Mistake]) -> str:
    """Return a file's text in which each mistake is a choice, by the mutant's number, from 1 on."""
    lines = text.split("\n")
    known_words = KEYWORDS | set(WORD.findall(COMMENT.sub("", SWITCH + text)))
    statements: dict[int, list[tuple[int, str]]] = {}
    expressions: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for number, mistake in enumerate(mutants, 1):
        for edit in mistake.edits:
            name, function, *occurrence = edit.place.split()
            if name != file:
                continue
            if unknown_words := set(WORD.findall(edit.wrong)) - known_words:
                raise Stale(f"{mistake.name}: {file} has no {', '.join(sorted(unknown_words))}")
            fragment = edit.text.removesuffix(REST)
            places = [i for i in _function(lines, function) if fragment in lines[i]]
            nth, count = map(int, occurrence[0].split("/")) if occurrence else (1, 1)
            if len(places) != count or lines[places[nth - 1]].count(fragment) != 1:
                raise Stale(f"{mistake.name}: {edit.text!r} is {len(places)} times in {edit.place}")
            position = places[nth - 1]
            code = lines[position].split("  #")[0].strip()
            if code == fragment or (code.startswith(fragment) and edit.text.endswith(REST)):
                statements.setdefault(position, []).append((number, edit.wrong))
            else:
                expressions.setdefault((position, edit.text), []).append((number, edit.wrong))
    for (position, original), choices in expressions.items():
        expression = original
        for number, text in choices:
            # Of a condition that is dropped no conditional expression: of mixed types it would be a Python object.
            dropped = f"(qc_mutant != {number} and ({expression}))"
            expression = dropped if text == "False" else f"(({text}) if qc_mutant == {number} else ({expression}))"
        if original not in lines[position]:
            raise Stale(f"{original!r} is in another expression that goes wrong")
        lines[position] = lines[position].replace(original, expression)
    for position, choices in statements.items():
        indent = " " * (len(lines[position]) - len(lines[position].lstrip()))
        chain = "".join(
            f"{indent}{'el' if i else ''}if qc_mutant == {number}:\n{indent}    {text}\n"
            for i, (number, text) in enumerate(choices)
        )
        lines[position] = f"{chain}{indent}else:\n    {lines[position]}"
    first = next(i for i, line in enumerate(lines) if line.startswith(("cdef ", "ctypedef ")))
    return "\n".join(lines[:first]) + "\n" + SWITCH + "\n".join(lines[first:])


BUILD = """
import setup
from setuptools import Distribution
command = setup.build_ext(Distribution({"ext_modules": setup.extensions()}))
command.build_lib = command.build_temp = "built"
command.ensure_finalized()
command.run()
"""


def sources(mutants: Sequence[Mistake]) -> dict[Path, str]:
    """Return the text of each file of the core in which there are mistakes, with them."""
    files = sorted({edit.place.split()[0] for one in mutants for edit in one.edits})
    return {CORE / file: mutated(file, (ROOT / CORE / file).read_text(encoding="utf-8"), mutants) for file in files}


def build(package: Path, folder: Path, mutants: Sequence[Mistake], *extensions: str) -> Path:
    """Make a package in a folder, like this one but for the mutants; return what to put on Python's path.

    `extensions` are compiled again, or all of a folder: whatever has code of those files in it. Several processes may
    ask for the same folder: one builds, the others wait for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tree = folder / "tree"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(package, folder, tree, mutants, extensions)
            (folder / "complete").touch()
    return tree


def _build(package: Path, folder: Path, tree: Path, mutants: Sequence[Mistake], extensions: Sequence[str]) -> None:
    shutil.copytree(ROOT / "src", folder / "src", dirs_exist_ok=True)
    shutil.copy(ROOT / "setup.py", folder)
    for file, text in sources(mutants).items():
        (folder / file).write_text(text, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))}
    subprocess.run(
        [sys.executable, "-c", BUILD],
        cwd=folder,
        env=environment | {"QUEUECORE_TESTING": "1", "QUEUECORE_ONLY": ",".join(extensions)},
        check=True,
        timeout=300,
    )
    shutil.copytree(package, tree / "queuecore", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copytree(folder / "built" / "queuecore", tree / "queuecore", dirs_exist_ok=True)

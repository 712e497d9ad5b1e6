"""Every memory order of what crosses threads, whole and weakened, under the seeded scheduler.

The scheduler (schedule.hpp) runs the same .pxd code on fibres, with atomics that may return any old value which the
orders allow, and reports races on what the atomics guard. So an edge whose weakening nobody notices here is one that
has not been tested, or is not needed; those are listed with the argument.
"""

from __future__ import annotations

import os
import random
import re
import signal

import pytest
from helpers.process import run_python
from helpers.repository.layers import REPOSITORY

if os.environ.get("QUEUECORE_SANITIZED_TREE"):
    pytest.skip("one thread on many stacks is nothing for a sanitizer", allow_module_level=True)
NOT_BUILT = "this build has no scheduler (QUEUECORE_TESTING=1)"
atoms = pytest.importorskip("queuecore._core.testing.schedule_atoms", reason=NOT_BUILT)
queues = pytest.importorskip("queuecore._core.testing.schedule_queues", reason=NOT_BUILT)

SEEDS = 10_000
# The queues' scenarios are ten times as long.
HAND_SEEDS = 2_000
# Few of its schedules show a relaxed L4.
PIECES_SEEDS = 100_000

# Which scenario notices that an edge is relaxed.
NOTICED = {
    **dict.fromkeys(("R2", "R9"), "both_outside"),
    **dict.fromkeys(("R3", "R6"), "seal"),
    **dict.fromkeys(("R5", "R12"), "both_full"),
    **dict.fromkeys(("R7", "R11"), "flow"),
    **dict.fromkeys(("R13", "R14"), "turns"),
    **dict.fromkeys(("R15", "R16"), "push_turns"),
    "P2": "park_slots",
    "N1": "park_slots",
    "membarrier": "park_light",
    "T1": "mutex",
    "T2": "window",
    "T3": "mutex",
    **dict.fromkeys(("S1", "S2"), "slots"),
    **dict.fromkeys(("B1", "B2", "B3", "B4", "B5", "B6", "B7"), "window"),
    **dict.fromkeys(("E1", "E2", "F1", "F2", "F3", "F4"), "stop"),
    **dict.fromkeys(("Q1", "Q3"), "pool"),
    "H1": "grow",
    **dict.fromkeys(("H2", "H4"), "grow_late"),
    "H3": "grow_gather",
    **dict.fromkeys(("H5", "H6", "H7"), "grow_cancel"),
    **dict.fromkeys(("H8", "H9"), "cancel"),
    **dict.fromkeys(("L1", "L4", "L7"), "pieces"),
    **dict.fromkeys(("L2", "L3", "L6"), "one"),
    "L5": "two",
}

# These need R11 to be less than it is: a seq_cst load of a cell sees the last push into it, as the scheduler takes the
# order in which things are executed for the order of all seq_cst operations. On a machine that lets the store of tail
# or head overtake the one before it, which the scheduler does not model, nothing but these edges keeps a push or pop
# from being missed by who has seen a later one. With R11 acquire and no more, the scheduler sees that they carry this
# alone.
NOTICED_WITHOUT_ORDER_OF_R11 = ("R1", "R4", "R8", "R10", "R12")

# What being seq_cst, more than acquire and release, is for.
ORDERED = {
    **dict.fromkeys(("R2", "R9"), "both_outside"),
    **dict.fromkeys(("R5", "R12"), "both_full"),
    **dict.fromkeys(("R7", "R11"), "both_empty"),
}

# Nothing in the model can show these.
UNNOTICED = {
    "P1": "The fence P2 (or the barrier in its place) follows at once: it orders the count before the look at the "
    "condition for every notifier whose fence N1 comes later, and for an earlier one shows the waiter the change. "
    "Stays seq_cst so that the pair can be read without that argument; any read-modify-write of x86-64 costs the same.",
    "N2": "Who reads the new epoch has counted itself after the notifier's fence N1, so that its own fence P2 shows it "
    "the change already.",
    **dict.fromkeys(
        ("Q4", "Q5"),
        "They publish where a chunk's rows are: plain memory, which who comes second gives back before anybody has "
        "seen it. So the same address is written again by others, and the scheduler can't watch it.",
    ),
}

# Who takes a slot whose chunk nobody has shown it follows a pointer that is not there.
CRASHES = ("Q2", "Q6")


SCENARIOS = (*atoms.SCENARIOS, *queues.SCENARIOS)


def explore(scenario, count, **weakened):
    """Run a scenario, of the atoms or of the queues, under the schedules of the first seeds."""
    return (queues if scenario in queues.SCENARIOS else atoms).explore(scenario, 1, count, **weakened)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_schedule_goes_wrong(scenario):
    assert explore(scenario, HAND_SEEDS if scenario in queues.SCENARIOS else SEEDS) is None


@pytest.mark.parametrize("scenario", atoms.BROKEN)
def test_a_decision_with_less_looking_goes_wrong(scenario):
    assert explore(scenario, SEEDS)[1] == "wrong"


def test_every_edge_is_accounted_for():
    noticed = {*NOTICED, *NOTICED_WITHOUT_ORDER_OF_R11, *CRASHES}
    assert noticed | {*UNNOTICED} == set(atoms.EDGES)
    assert noticed.isdisjoint(UNNOTICED)


def test_edges_are_numbered_in_the_order_of_their_files():
    files = [path.read_text() for path in sorted((REPOSITORY / "src/queuecore/_core").rglob("*.pxd"))]
    for letter in {edge[0] for edge in atoms.EDGES if edge != "membarrier"}:
        (text,) = [text for text in files if re.search(rf"^    {letter}1 = \d+$", text, re.MULTILINE)]
        met = [edge for call in re.findall(r"order\(([^()]*), k", text) for edge in re.findall(rf"\b{letter}\d+", call)]
        assert list(dict.fromkeys(met)) == [edge for edge in dict.fromkeys(atoms.EDGES) if edge[0] == letter]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("edge", "scenario"), NOTICED.items())
def test_a_relaxed_edge_is_noticed(edge, scenario):
    assert explore(scenario, PIECES_SEEDS if scenario == "pieces" else SEEDS, relaxed=[edge]) is not None


@pytest.mark.parametrize(("edge", "scenario"), ORDERED.items())
def test_an_edge_that_leaves_the_one_order_is_noticed(edge, scenario):
    seed, verdict, check = explore(scenario, SEEDS, unordered=[edge])
    assert (verdict, check) == ("wrong", {"both_empty": 20, "both_full": 21, "both_outside": 28}[scenario])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("edge", NOTICED_WITHOUT_ORDER_OF_R11)
def test_what_indices_pass_on(edge):
    assert explore("own", SEEDS, unordered=["R11"]) is None
    assert explore("own", SEEDS, unordered=["R11"], relaxed=[edge]) is not None


@pytest.mark.parametrize("edge", CRASHES)
def test_a_relaxed_edge_that_ends_in_a_crash(edge):
    child = run_python(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from queuecore._core.testing import schedule_atoms
        print(schedule_atoms.explore("pool", 1, {SEEDS}, relaxed=[{edge!r}]))
    """)
    assert child.returncode == -signal.SIGSEGV, child.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("edge", UNNOTICED)
def test_an_edge_that_nothing_can_show(edge):
    for scenario in SCENARIOS:
        seeds = HAND_SEEDS if scenario in queues.SCENARIOS else SEEDS
        assert explore(scenario, seeds // 10, relaxed=[edge]) is None


# ---- Whatever threads do with a queue.


def script(rng: random.Random, letters: str, most: int) -> str:
    """Return some calls of one thread, which put at most so many rows."""
    text, rows = "", 0
    for letter in rng.choices(letters, k=rng.randrange(1, 5)):
        rows += queues.ROWS.get(letter, 0)
        if rows <= most:
            text += letter
    return text


@pytest.mark.parametrize("kind", queues.STORES)
def test_nothing_that_threads_do_goes_wrong(kind):
    # One of those that put closes; one of those that get takes what is left, so that all come to an end.
    rng = random.Random(kind)
    for _ in range(HAND_SEEDS // 10):
        least = rng.randrange(2) if kind == "random" else 0
        # A priority queue has no rows for who wants more at once than it holds.
        capacity = rng.choice([-1, 3] if kind == "priority" else [-1, 1 + least, 3])
        puts = [script(rng, "ppPQMtT", 5 if capacity < 0 else 10) for _ in range(rng.randrange(1, 4))]
        puts[0] += rng.choice("cC")
        gets = [script(rng, "ggGHUihLs", 0) for _ in range(rng.randrange(3))]
        scenario = (kind, capacity, least, (*puts, *gets, "D"))
        assert queues.explore(scenario, rng.getrandbits(32), 10) is None, scenario


# ---- What is answered could have been answered one call after the other.


def apply(capacity: int, state: tuple, name: str, tokens: tuple[int, ...], answer, strict: bool = True):
    """Return the state after a call that gives this answer, or None if it can't be given.

    Unless `strict`, a push may be made although rows outside have come meanwhile.
    """
    rows, sealed, outside = state
    if name in ("more", "less"):
        return rows, sealed, outside + (1 if name == "more" else -1)
    if name == "seal":
        return (rows, True, outside) if answer is not sealed else None
    if name == "push":
        full = len(rows) + outside >= capacity
        if answer == "ok":
            full = len(rows) + (outside if strict else 0) >= capacity
        if answer != ("sealed" if sealed else "full" if full else "ok"):
            return None
        return (rows + tokens, sealed, outside) if answer == "ok" else state
    if answer == "ok":  # pop_many takes what it likes, at least one
        return (rows[len(tokens) :], sealed, outside) if rows[: len(tokens)] == tokens else None
    return state if not rows and answer == ("sealed" if sealed else "empty") else None


def linearizable(capacity: int, outside: int, calls: list) -> bool:
    """Whether the calls, each at some moment between its begin and its end, are those of a queue."""
    dead: set[tuple] = set()
    strict = all(call[2] != "more" for call in calls)

    def search(members_left: frozenset[int], state: tuple) -> bool:
        if not members_left:
            return True
        if (members_left, state) in dead:
            return False
        first_end = min(calls[i][1] for i in members_left)
        for i in members_left:
            if calls[i][0] < first_end:
                after = apply(capacity, state, *calls[i][2:], strict)
                if after is not None and search(members_left - {i}, after):
                    return True
        dead.add((members_left, state))
        return False

    return search(frozenset(range(len(calls))), ((), False, outside))


def test_histories_are_linearizable():
    answers = set()
    for seed in range(1, SEEDS):
        capacity, outside, calls = atoms.history(seed)
        assert linearizable(capacity, outside, calls), (seed, calls)
        answers |= {call[2:3] + call[4:] for call in calls}
    assert answers >= {("push", "full"), ("push", "sealed"), ("pop", "empty"), ("pop", "sealed"), ("seal", False)}


@pytest.mark.parametrize("edge", ["R2", "R3", "R5", "R7", "R9", "R11", "R12"])
def test_histories_need_the_one_order(edge):
    assert not all(linearizable(*atoms.history(seed, [edge])) for seed in range(1, 5 * SEEDS))


# ---- A thread that stops anywhere holds back nobody.

# The operations of each call that have a label; each must have been the one before which the call was suspended.
STEPS = {
    "push": {"R1", "R2", "R3", "R4", "R5", "R7", "R8"},
    "pop": {"R10", "R11", "R12"},
    "pop_many": {"R10", "R11", "R12"},
    "seal": {"R1", "R2", "R3", "R4", "R6"},
    "turn_take": {"R13"},
    "turn_give": {"R14"},
    "push_turn_take": {"R15"},
    "push_turn_give": {"R16"},
    "outside": {"R9"},
}
WANT = 1000


def stops(call: str):
    """Suspend a call before each of its operations, the ring empty, half full and full; yield what came of it."""
    for filled in (0, 2, 4):
        for seed in range(12):
            position = 1
            while True:
                verdict, labels, calls, good = atoms.suspend_in(call, position, seed, WANT, filled)
                if labels is None:
                    break
                yield set(labels), verdict, calls, good
                position += 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", ["push", "pop", "pop_many", "seal", "turn_take", "push_turn_take", "outside"])
def test_a_suspended_thread_holds_back_nobody(call):
    steps: set[str] = set()
    for labels, verdict, _, good in stops(call):
        assert verdict == "fine"
        # Who was half way through its call at that moment may find nothing more at the end.
        assert good >= 4 * WANT - 12, f"suspended before {labels}"
        steps |= labels
    assert steps == STEPS[call]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("call", ["turn_give", "push_turn_give"])
def test_who_holds_a_turn_holds_back_others_but_not_their_answers(call):
    for labels, verdict, calls, good in stops(call):
        assert labels == STEPS[call]
        assert verdict == "fine"
        assert calls == 4 * 20 * WANT  # each was answered, nearly all with TURN, FULL or EMPTY
        assert good <= 12


# As above, of the queues: of a put and a get while nobody is in line, and of acting for those in line.
HAND_STEPS = {
    "put_try": {"H1", "H2", "H8", "R1", "R2", "R3", "R4", "R5", "R7", "R8"},
    "get_try": {"H2", "R10", "R11", "R12"},
    "hand_settle": {
        *("H1", "H2", "H8", "L1", "L2", "L3", "L4", "L5", "T1", "T3"),
        *("R1", "R2", "R3", "R5", "R7", "R8", "R10", "R11", "R12", "R14", "R16"),
    },
}
HAND_WANT = 300


def hand_stops(call: str, capacities: tuple[int, ...]):
    """Suspend a call before each of its operations, the queue empty and full; yield what came of it."""
    for capacity in capacities:
        for filled in (0, capacity if capacity > 0 else 2):
            for seed in range(6 if capacity > 0 else 10):  # few schedules put a row back
                position = 1
                while True:
                    verdict, labels, good = queues.suspend_hand(call, [position], seed, HAND_WANT, filled, capacity, 4)
                    if labels is None:
                        break
                    yield (capacity, filled, seed, position, labels), verdict, good
                    position += 1


@pytest.mark.thorough
@pytest.mark.parametrize("call", HAND_STEPS)
def test_a_suspended_thread_holds_back_no_queue(call):
    steps: set[str] = set()
    for where, verdict, good in hand_stops(call, (1, 2, 4, -1)):
        assert verdict == "fine"
        # Settling: every call of the others came back.
        assert good >= 4 * HAND_WANT - (0 if call == "hand_settle" else 12), f"suspended at {where}"
        steps |= {*where[-1]}
    assert steps == HAND_STEPS[call]


# As many as there may be fibres beside two that go on: for each capacity up to two more than it has places.
CROWD_WANT = 60


@pytest.mark.sampled(2)
@pytest.mark.parametrize("call", ["put_try", "get_try"])
@pytest.mark.parametrize("capacity", [1, 2, 4, -1])
def test_any_number_of_suspended_threads_holds_back_no_queue(call, capacity):
    steps: set[str] = set()
    for count in range(1, (capacity if capacity > 0 else 4) + 3):
        for filled in (0, 1, capacity if capacity > 0 else 2):
            for seed in range(2):
                position, labels = 1, []
                while labels is not None:
                    verdict, labels, good = queues.suspend_hand(
                        call, [position] * count, seed, CROWD_WANT, filled, capacity, 2
                    )
                    if labels is not None:
                        assert verdict == "fine"
                        # Who was half way through its call may have put or taken one more.
                        assert good >= 2 * CROWD_WANT - count - 8, f"{count} suspended before {position}: {labels}"
                        steps |= {*labels}
                    position += 1
    # All of them before the same operation: some are only made by one that another was faster than.
    assert steps <= HAND_STEPS[call]
    assert steps >= HAND_STEPS[call] - {"H2", "R4"}


@pytest.mark.thorough
@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_what_happens_around_suspended_threads_is_linearizable(capacity):
    rng = random.Random(capacity)
    peak = 0
    answers = set()
    for _ in range(HAND_SEEDS):
        count = rng.randrange(1, capacity + 3)
        # Puts alone, gets alone, or both; all before the same operation or each anywhere.
        puts = rng.choice([0, (1 << count) - 1, rng.getrandbits(count)])
        places = [rng.randrange(1, 14)] * count if rng.random() < 0.5 else [rng.randrange(1, 14) for _ in range(count)]
        stopped, calls = queues.stopped_history(
            places, puts, rng.getrandbits(32), rng.randrange(capacity + 1), capacity
        )
        assert linearizable(capacity, 0, calls), (places, puts, calls)
        peak = max(peak, stopped)
        answers |= {call[2:3] + call[4:] for call in calls}
    assert peak == capacity + 2
    assert answers == {("push", "ok"), ("push", "full"), ("pop", "ok"), ("pop", "empty")}


@pytest.mark.parametrize("count", range(1, 7))
def test_suspended_threads_keep_no_slots_from_others(count):
    steps: set[str] = set()
    for seed in range(4):
        position, labels = 1, []
        while labels is not None:
            verdict, labels, taken = queues.suspend_in_pool([position] * count, seed, CROWD_WANT)
            if labels is not None:
                assert (verdict, taken) == ("fine", 3 * CROWD_WANT), f"{count} suspended before {position}: {labels}"
                steps |= {*labels}
            position += 1
    assert {"Q1", "Q2", "Q3"} <= steps <= {"Q1", "Q2", "Q3", "Q4", "Q5", "Q6"}

"""The ring and blocking queues, beside those that a distribution packages.

Everything moves tokens of 8 bytes through a queue with room for 1,024, on two cores: producer i is bound to core i mod
2, consumer i to the other one, so that 2P2C and 4P4C have more threads than cores, on purpose. After a failed try
everybody makes 16 pauses, and gives its core away now and then. "Blocking" is a ring with two event counts, and what a
peer has to wait with.

A slice is short, and counts and adds up all tokens on both sides. In each round every contender of a row has one slice;
a ratio is that of two slices of the same round.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

OURS = "queuecore FifoRing"
BLOCKING = ("1P1C blocking, MPMC", "2P2C blocking", "4P4C blocking")
STALL = "2P2C spinning, one producer"

# By row: the target of the ratio to the best peer.
TARGETS = {
    "pair, MPMC": {"at_most": 1.5},
    **{row: {"at_least": 0.65} for row in BLOCKING},
}
STALL_TARGET = {"at_least": 0.95}

LEFT_OUT = {
    f"{name} (4P4C spinning)": "its calls wait for other threads without giving the core away, here for seconds"
    for name in ("rte_ring, mp/mc", "ck_ring, mpmc")
}


def unit_of(row: str) -> str:
    """Return the unit of a row's figures. Those that are times are better when they are small."""
    if row.startswith("pair"):
        return "ns/pair"
    if row.startswith("batches of 32, 1 thread"):
        return "ns/token"
    return "us" if row.startswith("round trip") else "M tokens/s"


def best_of(row: str, raw: dict[str, list[float]], names: list[str]) -> str:
    """Return the name with the best median."""
    medians = {name: harness.spread(raw[name])["median"] for name in names}
    return (max if unit_of(row) == "M tokens/s" else min)(names, key=medians.__getitem__)


def findings_of(row: str, raw: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return the figures of a row, then the ratio of ours to the best peer."""
    findings = [harness.finding(f"{row}: {name}", unit_of(row), values) for name, values in raw.items()]
    peers = [name for name in raw if name != OURS]
    if OURS in raw and peers:
        best = best_of(row, raw, peers)
        ratios = [ours / theirs for ours, theirs in zip(raw[OURS], raw[best], strict=True)]
        findings.append(harness.finding(f"{row}: {OURS} / best, {best}", "ratio", ratios, **TARGETS.get(row, {})))
    return findings


def versions(packages: dict[str, str]) -> dict[str, str]:
    """Return the versions of Debian packages, by peer, where there is somebody to ask."""
    package_versions = {}
    for name, package in packages.items():
        try:
            asked = subprocess.run(["dpkg-query", "-W", "-f${Version}", package], capture_output=True, text=True)
        except OSError:
            continue
        package_versions[name] = f"{package} {asked.stdout}" if asked.returncode == 0 else "not from a Debian package"
    return package_versions


def run(options: harness.Options) -> dict[str, Any]:
    """Measure every row."""
    native, stall = harness.native("ring_native"), harness.native("ring_stall")
    import build

    cpus = harness.pin()
    rounds, seconds = (5, 0.01) if options.quick else (21, 0.05)
    absences = build.absent_peers() if options.peers else {}
    present = {name: peer.package for name, peer in build.peers().items() if name not in absences}

    rows: dict[str, list[tuple[str, Any]]] = {}
    for number, (row, name) in enumerate(native.contenders()):
        if options.peers or name == OURS:
            measure = lambda number=number: native.measure(number, seconds, cpus)  # noqa: E731
            rows.setdefault(row, []).append((name, measure))
            absences |= {key: why for key, why in LEFT_OUT.items() if key.startswith(f"{name} (")}
    for is_absent in (False, True):
        measure = lambda is_absent=is_absent: stall.measure(is_absent, seconds, cpus)  # noqa: E731
        rows.setdefault(STALL, []).append((f"{OURS}, {'absent' if is_absent else 'asleep'}", measure))

    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    for row, contenders in rows.items():
        print(f"  {row}", file=sys.stderr, flush=True)
        raw[row] = harness.rotate(contenders, rounds)
        findings += findings_of(row, raw[row])
    both = zip(raw[STALL][f"{OURS}, asleep"], raw[STALL][f"{OURS}, absent"], strict=True)
    ratios = [asleep / gone for asleep, gone in both]
    findings.append(harness.finding(f"{STALL}: {OURS}, asleep / absent", "ratio", ratios, **STALL_TARGET))

    return harness.report(
        "rings",
        "rings and blocking queues of 1,024 tokens, on two cores",
        findings,
        raw,
        parameters={
            "capacity": 1024,
            "slice_seconds": seconds,
            "rounds": rounds,
            "pauses_after_a_failed_try": 16,
            "peers": versions(present) if options.peers else {},
        },
        notes=[
            "ck_ring and rte_ring have room for 1,023, moodycamel for 1,024 of each producer",
            "moodycamel's producers spin for room in the blocking rows too: it has nothing to wait with there",
            "a batch of FifoRing is 32 pushes and one pop: it has no push of several",
            "a batch goes through whole or not at all in rte_ring, with the others as much as fits",
            "asleep: a millisecond in every push, between filling the cell and moving the tail",
        ],
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)

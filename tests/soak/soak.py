"""Random pipelines under random faults, for a given time, with an exact account of every record.

`make soak` starts it. Its files lie in a temporary folder. One process plays rounds (rounds.py) all the time, so that
its memory can be watched; others play rounds that are killed and go on, or are stopped for a while. Exits with 1 if a
record was lost, came twice or was wrong, if memory grew, or if a round found no end.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

import pipelines

ROUNDS = pathlib.Path(__file__).with_name("rounds.py")
PATIENCE = 300  # seconds for one round
# MiB that the median of resident memory may grow by, from the first third of the rounds to the last.
GROWTH = 64


class Failure(Exception):
    """A round that failed."""


class Soak:
    """Counts of all rounds.

    Parameters
    ----------
    folder : Path
        Where `pipelines.write` wrote.
    seed : int
        Of the first round.
    until : float
        When the last round may begin, by the monotonic clock.
    records : int
        How many records are enough.
    """

    def __init__(self, folder: pathlib.Path, seed: int, until: float, records: int | None) -> None:
        self.folder = folder
        self.seed = seed
        self.until = until
        self.enough = records
        self.records = 0
        self.rounds = 0
        self.faults: collections.Counter[str] = collections.Counter()
        self.resident: list[int] = []
        self.failures: list[str] = []
        self.lock = threading.Lock()

    def over(self) -> bool:
        """Whether no round may begin any more."""
        enough = self.enough is not None and self.records >= self.enough
        return bool(self.failures) or enough or time.monotonic() > self.until

    def enter(self, line: str, struck: dict[str, int]) -> None:
        """Enter a round's result."""
        entry = json.loads(line)
        with self.lock:
            self.rounds += 1
            self.records += entry["records"]
            self.faults[entry["fault"]] += entry["struck"]
            self.faults.update(struck)
            if "resident" in entry:
                self.resident.append(entry["resident"])

    def start(self, seed: int, *more: str) -> tuple[subprocess.Popen[str], TextIO]:
        """Start rounds in a process of their own."""
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the process has ended
        command = [sys.executable, "-P", "-W", "ignore", str(ROUNDS), str(self.folder), "--seed", str(seed), *more]
        environment = {**os.environ, "PYTHONPATH": str(ROUNDS.parent), "PYTHONFAULTHANDLER": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment), errors

    def failed(self, process: subprocess.Popen[str], errors: TextIO) -> None:
        """Note why a process ended early."""
        errors.seek(0)
        self.failures.append(f"{' '.join(map(str, process.args))}: status {process.returncode}\n{errors.read()}")

    def play(self, seed: int, *more: str, stopped: bool = False) -> None:
        """Let one process play rounds, all that it is told to or until it is over; perhaps stop it now and then."""
        process, errors = self.start(seed, *more)
        done = threading.Event()
        stopper = threading.Thread(target=self._stop_now_and_then, args=(process, done))
        if stopped:
            stopper.start()
        try:
            for line in self._lines(process):
                self.enter(line if not stopped else line.replace('"resident"', '"resident of a short one"'), {})
                if self.over():
                    return
            if process.wait():
                self.failed(process, errors)
        finally:
            done.set()
            if stopped:
                stopper.join()
            process.kill()
            process.communicate()
            errors.close()

    @staticmethod
    def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
        # A process that has nothing to say for too long tells where its threads are, and ends.
        assert process.stdout is not None
        while True:
            timer = threading.Timer(PATIENCE, process.send_signal, (signal.SIGABRT,))
            timer.start()
            try:
                line = process.stdout.readline()
            finally:
                timer.cancel()
            if not line:
                return
            yield line

    def _stop_now_and_then(self, process: subprocess.Popen[str], done: threading.Event) -> None:
        state = random.Random(process.pid)
        while not done.wait(state.uniform(0.05, 1)):
            process.send_signal(signal.SIGSTOP)
            done.wait(state.uniform(0, 0.2))
            process.send_signal(signal.SIGCONT)
            with self.lock:
                self.faults["stopped"] += 1

    def kill(self, seed: int) -> None:
        """Play one round that is killed anywhere, some times, and goes on from what it has written."""
        state = random.Random(seed)
        kills = 0
        with tempfile.TemporaryDirectory() as journal:
            while True:
                process, errors = self.start(seed, "--journal", journal)
                with errors:
                    kill = kills < 3
                    try:
                        out, _ = process.communicate(timeout=state.uniform(0.3, 1.5) if kill else PATIENCE)
                    except subprocess.TimeoutExpired:
                        process.send_signal(signal.SIGKILL if kill else signal.SIGABRT)
                        out, _ = process.communicate()
                        kills += 1
                    if process.returncode == 0:
                        self.enter(out, {"killed": kills})
                        return
                    if not kill or process.returncode != -signal.SIGKILL:
                        self.failed(process, errors)
                        return

    def others(self, first: int) -> None:
        """Play rounds in short-lived processes until it is over."""
        seed = first
        while not self.over():
            self.kill(seed)
            if not self.over():
                self.play(seed + 1, "--count", "10", stopped=True)
            seed += 100

    def grown(self) -> int:
        """Return by how many MiB the median of resident memory grew, from the first third of the rounds to the last."""
        third = len(self.resident) // 3
        if third < 10:
            return 0
        return int(statistics.median(self.resident[-third:]) - statistics.median(self.resident[:third]))


def report(soak: Soak, seconds: float, seed: int) -> dict[str, Any]:
    """Return what is kept of a run."""
    return {
        "records": soak.records,
        "rounds": soak.rounds,
        "seconds": round(seconds),
        "seed": seed,
        "faults": dict(sorted(soak.faults.items())),
        "failures": len(soak.failures),
        "resident_mib": {
            "first": soak.resident[:1],
            "most": max(soak.resident, default=0),
            "last": soak.resident[-1:],
            "growth_of_median": soak.grown(),
        },
    }


def main() -> int:
    """Run it; print the records, the faults, and what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--records", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--json", type=pathlib.Path, help="also write the report here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        pipelines.write(pathlib.Path(folder))
        begun = time.monotonic()
        soak = Soak(pathlib.Path(folder), args.seed, begun + args.seconds, args.records)
        other = threading.Thread(target=soak.others, args=(args.seed + 10**9,))
        other.start()
        soak.play(args.seed)
        other.join()
        seconds = time.monotonic() - begun
    if soak.failures:
        print(*soak.failures, sep="\n\n", file=sys.stderr)
        print(f"soak: failed; the seed was {args.seed}")
        return 1
    if soak.grown() > GROWTH:
        print(f"soak: memory grew by {soak.grown()} MiB; the seed was {args.seed}")
        return 1
    if args.json is not None:
        args.json.write_text(json.dumps(report(soak, seconds, args.seed), indent=1) + "\n")
    faults = sum(count for kind, count in soak.faults.items() if kind not in ("none", "queues"))
    counts = f"{soak.records:,} records, {soak.rounds:,} rounds, {faults:,} faults in {seconds:.0f} s"
    print(f"soak: {counts}: nothing lost, nothing twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a peer's own tests against queuecore: ``make conformance QUEUECORE_PEER_TESTS=/some/folder``.

The folder has the peer's layout (``tensorflow/python/...``); without one, it is that of an installed package, which the
Python of QUEUECORE_TENSORFLOW_PYTHON finds. Each module runs in a process of its own with a time limit; after a test
that takes too long, or ends its process, another process goes on behind it. The table is written into a page of the
documentation, and failures with their tracebacks into build/conformance.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
BEGIN, END = "<!-- table: make conformance -->", "<!-- end of the table -->"
# Where a peer's tests of its input stack lie.
FOLDERS = (
    "tensorflow/contrib",
    "tensorflow/python/client",
    "tensorflow/python/data",
    "tensorflow/python/framework",
    "tensorflow/python/kernel_tests",
    "tensorflow/python/lib",
    "tensorflow/python/training",
    "tensorflow/python/util",
    "test",
    "torchdata",
)


class Outcome(NamedTuple):
    """What came of the tests of one module."""

    module: str
    tests: dict[str, dict[str, Any]]
    broken: str  # why the module can't be run, if it can't

    def count(self, kind: str) -> int:
        """Return how many tests ended so."""
        return sum(test["outcome"] == kind for test in self.tests.values())

    def failures(self) -> list[dict[str, Any]]:
        """Return the tests that failed."""
        return [test for test in self.tests.values() if test["outcome"] == "failed"]


def files(root: Path, patterns: list[str]) -> list[Path]:
    """Return the files with tests of a peer, those that have a pattern in their path."""
    paths = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            named = str(path.relative_to(root))
            is_test = path.stem.endswith("_test") or path.stem.startswith("test_")
            if is_test and path.stem != "test_base" and any(fnmatch.fnmatch(named, f"*{text}*") for text in patterns):
                paths.append(path)
    return paths


def run_module(root: Path, file: Path, out: Path, module_limit: float, test_limit: float) -> Outcome:
    """Run one module until all its tests are done, or its time is over."""
    out.unlink(missing_ok=True)
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [
        sys.executable,
        "-P",
        "-m",
        "conformance.child",
        str(root),
        str(file),
        str(out),
        "--limit",
        str(test_limit),
    ]
    until = time.monotonic() + module_limit
    broken = ""
    while True:
        before = out.stat().st_size if out.exists() else 0
        status, told = _ended(command, environment, max(1.0, until - time.monotonic()))
        if status is None:
            broken = f"the module took more than {module_limit:.0f} s"
        elif status and (not out.exists() or out.stat().st_size == before):  # no test has begun
            broken = (told.strip().splitlines() or [f"exit status {status}"])[-1]
        if broken or status == 0:
            break
    tests = {}
    for line in out.read_text().splitlines() if out.exists() else []:
        test = json.loads(line)
        tests[test["test"]] = test
    for test in tests.values():
        if test["outcome"] == "begun":
            test |= {"outcome": "failed", "reason": "it took too long, or ended its process"}
    return Outcome(str(file.relative_to(root)), tests, broken)


def _ended(command: list[str], environment: dict[str, str], limit: float) -> tuple[int | None, str]:
    """Run a process, and end those that it leaves; return its status, `None` if it took too long, and its errors."""
    # Not by a pipe: a process that a test left would keep it open.
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        try:
            status: int | None = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        errors.seek(0)
        return status, errors.read()


def table(outcomes: list[Outcome]) -> str:
    """Return the table of the documentation, and what doesn't apply, by reason."""
    lines = ["| module | tests that apply | passed | failed | not applying |", "|---|---|---|---|---|"]
    total: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for outcome in outcomes:
        counts = {kind: outcome.count(kind) for kind in ("passed", "failed", "not applying")}
        total.update(counts)
        reasons.update(test["reason"] for test in outcome.tests.values() if test["outcome"] == "not applying")
        if outcome.broken and not outcome.tests:
            lines.append(f"| `{outcome.module}` | | | can't be run: {outcome.broken.replace('|', ' ')} | |")
        else:
            lines.append(_row(f"`{outcome.module}`", counts))
    lines.append(_row("all", total))
    if reasons:
        lines += ["", "| why tests don't apply | tests |", "|---|---|"]
        lines += [f"| {reason.replace('|', ' ')} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _row(name: str, counts: Any) -> str:
    passed, failed = counts["passed"], counts["failed"]
    return f"| {name} | {passed + failed} | {passed} | {failed} | {counts['not applying']} |"


def write_page(page: Path, text: str) -> None:
    """Put a table into its place in a page."""
    content = page.read_text(encoding="utf-8")
    head, _, rest = content.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}", encoding="utf-8")


def installed_root() -> Path | None:
    """Return the folder that holds TensorFlow's installed package, if there is one; nothing of it is imported."""
    python = os.environ.get("QUEUECORE_TENSORFLOW_PYTHON", "")
    if not python or not Path(python).exists():
        return None
    told = "import importlib.util as u; s = u.find_spec('tensorflow'); print(s.origin if s else '')"
    origin = subprocess.run([python, "-P", "-c", told], capture_output=True, text=True, check=True).stdout.strip()
    return Path(origin).parent.parent if origin else None


def main(argv: list[str] | None = None) -> int:
    """Run what the arguments name, and print the table."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", help="parts of the paths of modules; all without any")
    parser.add_argument("--page", type=Path, help="the page that the table is written into")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "conformance", help="where failures go")
    parser.add_argument("--module-limit", type=float, default=900.0, help="seconds for a module")
    parser.add_argument("--test-limit", type=float, default=60.0, help="seconds for a test")
    args = parser.parse_args(argv)
    named = os.environ.get("QUEUECORE_PEER_TESTS")
    root = Path(named).resolve() if named else installed_root()
    if root is None or not root.is_dir():
        print("no tests: QUEUECORE_PEER_TESTS names a folder with the peer's layout", file=sys.stderr)
        return 2
    args.build.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for file in files(root, args.patterns or [""]):
        out = args.build / (str(file.relative_to(root)).replace("/", ".") + ".jsonl")
        outcome = run_module(root, file, out, args.module_limit, args.test_limit)
        outcomes.append(outcome)
        print(f"{outcome.module}: {outcome.count('passed')} passed, {outcome.count('failed')} failed, "
              f"{outcome.count('not applying')} not applying. {outcome.broken}", flush=True)  # fmt: skip
    failures = [test for outcome in outcomes for test in outcome.failures()]
    (args.build / "failures.txt").write_text(
        "".join(f"{test['test']}\n    {test.get('reason', '')}\n" for test in failures), encoding="utf-8"
    )
    if args.page is not None and not args.patterns:  # a table of all modules
        write_page(args.page, table(outcomes))
    print(f"failures: {args.build / 'failures.txt'}" if failures else "no failures")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

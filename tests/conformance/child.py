"""Runs the tests of one module of a peer in this process, and writes a line of JSON for each: child.py ROOT FILE OUT.

Each line is written when its test begins, and again when it has ended, so that the caller knows at which test the
process died. Tests that are in OUT already are left out.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import os
import sys
import threading
import tomllib
import traceback
import unittest
from pathlib import Path
from typing import Any, TextIO

from conformance import facades, torch_names
from conformance.modes import NotInQueuecoreError

from queuecore.tf1._graph.refused import MissingNameError

RULES = Path(__file__).with_name("not_applying.toml")
LATE = 124  # the exit status of a process whose test took too long
MODULE = "QUEUECORE_CONFORMANCE_MODULE"  # the module that runs, for processes that its tests spawn


class Rules:
    """What doesn't apply, and why."""

    def __init__(self, path: Path = RULES) -> None:
        self.listed = tomllib.loads(path.read_text(encoding="utf-8"))["rule"]

    def _reason(self, kind: str, name: str) -> str | None:
        for rule in self.listed:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in rule.get(kind, ())):
                return str(rule["reason"])
        return None

    def of_test(self, name: str) -> str | None:
        """Return why a test doesn't apply, by its name; None if it does."""
        return self._reason("tests", name)

    def of_error(self, error: BaseException | None) -> str | None:
        """Return why a test that ended with an error doesn't apply: it, or a cause of it, names what we don't have."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            name = error.name if isinstance(error, NotInQueuecoreError) else _named_in(error)
            reason = self._reason("names", name) if name else None
            reason = reason or self._reason("errors", f"{type(error).__name__}: {error}")
            if reason is not None:
                return reason
            error = error.__cause__ or error.__context__
        return None


def _named_in(error: BaseException) -> str | None:
    if isinstance(error, MissingNameError):  # "tf.Operation.node_def: it isn't in queuecore.tf1. ..."
        return str(error).partition(":")[0]
    # In the text of an error from another thread or process.
    _, found, behind = str(error).partition("queuecore has no ")
    return behind.split("\n")[0].strip() if found else None


class _Result(unittest.TestResult):
    def __init__(self, out: TextIO, module: str, rules: Rules, limit: float) -> None:
        super().__init__()
        self._out, self._module, self._rules, self._limit = out, module, rules, limit
        self._outcome: dict[str, Any] = {}
        self._timer: threading.Timer | None = None

    def name(self, test: Any) -> str:
        return f"{self._module}:{type(test).__name__}.{test._testMethodName}"

    def _say(self, **fields: Any) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self._outcome = {"test": self.name(test), "outcome": "passed"}
        self._say(test=self.name(test), outcome="begun")
        self._timer = threading.Timer(self._limit, os._exit, [LATE])
        self._timer.daemon = True
        self._timer.start()

    def stopTest(self, test: Any) -> None:  # noqa: N802
        if self._timer is not None:
            self._timer.cancel()
        self._say(**self._outcome)
        super().stopTest(test)

    def _failed(self, error: Any) -> None:
        if self._outcome["outcome"] == "failed":
            return
        reason = self._rules.of_error(error[1])
        told = "".join(traceback.format_exception(*error))[-4000:]
        kind = "failed" if reason is None else "not applying"
        self._outcome |= {
            "outcome": kind,
            "reason": reason or f"{error[0].__name__}: {str(error[1])[:300]}",
            "told": told,
        }

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._failed(err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._failed(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._failed(err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._outcome |= {"outcome": "not applying", "reason": f"it skips itself: {reason}"}


def tests_of(module: Any) -> list[unittest.TestCase]:
    """Return the tests of a module, in the order of their names."""
    tests: list[unittest.TestCase] = []

    def add(some: Any) -> None:
        for test in some:
            if isinstance(test, unittest.TestSuite):
                add(test)
            elif test._testMethodName != "test_session":
                tests.append(test)

    add(unittest.TestLoader().loadTestsFromModule(module))
    return tests


def load(root: Path, file: Path) -> Any:
    """Import a module of a peer's, with ours in the place of the peer's own."""
    facades.install(root)
    torch_names.install()
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(root: Path, file: Path, out: Path, limit: float, rules: Rules) -> None:
    """Run the tests of a file that are not in `out` yet."""
    done = {json.loads(line)["test"] for line in out.read_text().splitlines()} if out.exists() else set()
    with out.open("a") as lines:
        module = load(root, file)
        result = _Result(lines, module.__name__, rules, limit)
        for test in tests_of(module):
            label = result.name(test)
            if label in done:
                continue
            reason = rules.of_test(label)
            if reason is None:
                test.run(result)
            else:
                result._say(test=label, outcome="not applying", reason=reason)


def main() -> int:
    """Run one module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit", type=float, default=60.0)
    given = parser.parse_args()
    os.environ[MODULE] = f"{given.root}{os.pathsep}{given.file}"
    sys.argv = sys.argv[:1]
    run(given.root, given.file, given.out, given.limit, Rules())
    sys.stdout.flush()
    os._exit(0)  # threads that a failed test left don't keep the process
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
if __name__ == "__mp_main__":  # a test has spawned this process, for a function of its module
    load(*map(Path, os.environ[MODULE].split(os.pathsep)))

"""The package with a hook at each site (`.ci/sites.py`), and the processes that run on it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TREE = ROOT / "build/raise"
CORE = TREE / "queuecore/_core"
SOURCES = ROOT / "src/queuecore/_core"
NATIVE = ROOT / "tests/native/raise"

# The scenarios of raise_scenarios. Of the last ones the sites in other threads are tried as well.
MAIN = (
    *("fixed", "lines", "listed", "records", "copies", "shuffled", "csv", "examples", "bad_records", "states"),
    *("mapped", "generated", "objects", "filtered", "flat", "interleaved", "scanned", "reduced", "arrow"),
)
QUEUES = ("fifo", "strings", "shuffling", "padding", "priority", "leases", "objects_queue", "reading", "program")
OTHERS = ("mapped", "generated", "objects", "filtered", "flat", "interleaved")


def build() -> None:
    """Build the tree, or what of it is stale. The first of several processes does, the others wait."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build/raise.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(TREE)]
        environment = {**os.environ, "QUEUECORE_RAISE": "1", "QUEUECORE_TESTING": "0"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
        for path in (ROOT / "queuecore").rglob("*.py"):
            made = TREE / path.relative_to(ROOT)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, made)


def compile_library(folder: Path) -> Path:
    """Compile the library that decides which site raises."""
    made = folder / f"raise-{os.getpid()}.so"
    include = sysconfig.get_path("include")
    command = ["cc", "-O1", "-fPIC", "-shared", f"-I{include}", "-o", str(made), str(NATIVE / "raise.c")]
    subprocess.run(command, check=True)
    return made


def run(library: Path, folder: Path, *arguments: str) -> Any:
    """Run helpers.faults.raising on the tree, in a process of its own. Returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{TREE}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-X", "faulthandler", "-P", "-m", "helpers.faults.raising", library, folder, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    last = (folder / "last").read_text() if (folder / "last").exists() else "none"
    assert done.returncode == 0, f"{arguments}: at site {last} it ended with {done.returncode}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def compiled_sites() -> set[str]:
    """Return the names of all sites, which are strings in the compiled modules: what isn't compiled is no site."""
    sites = set()
    for source in sorted(SOURCES.rglob("*.pyx")):
        place = source.relative_to(SOURCES).with_suffix("")
        module = ".".join(place.parts)
        if place.parts[0] != "testing":
            compiled = (CORE / place).with_suffix(sysconfig.get_config_var("EXT_SUFFIX")).read_bytes()
            found = re.findall(rb"%s [\w.]+ \w[\w ]* \d+(?=\0)" % re.escape(module).encode(), compiled)
            sites.update(name.decode() for name in found)
    return sites

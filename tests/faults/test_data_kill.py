"""A process that is killed anywhere goes on where its last saved state says: nothing is lost, nothing comes twice."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from helpers.data.matrix import PIPELINES, numbers_in, write
from helpers.process import PATIENCE

import queuecore

KILLS = 100

# Writes each element with the state behind it, as one line: whatever is killed in between leaves half a line at most.
CHILD = """
import json, pathlib, sys, time
from helpers.data.matrix import PIPELINES, numbers_in
from queuecore.data import Options
folder, name, log, threads = sys.argv[1:]
lines = pathlib.Path(log).read_bytes().split(b"\\n")[:-1] if pathlib.Path(log).exists() else []
it = iter(PIPELINES[name](pathlib.Path(folder)).with_options(Options(num_threads=int(threads))))
if lines:
    it.load_state_dict(json.loads(lines[-1])["state"])
with open(log, "rb+" if lines else "wb", buffering=0) as file:
    file.truncate(sum(len(line) + 1 for line in lines))
    file.seek(0, 2)
    print("ready", flush=True)
    for element in it:
        line = json.dumps({"got": list(numbers_in(element)), "state": it.state_dict()}).encode() + b"\\n"
        half = len(line) // 2
        file.write(line[:half])
        time.sleep(0.002)
        file.write(line[half:])
print("end", flush=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("name", PIPELINES)
def test_killed_and_gone_on(tmp_path, name):
    folder = write(tmp_path)
    expected = [list(numbers_in(x)) for x in PIPELINES[name](folder)]
    state = random.Random(name)
    log = tmp_path / "log"
    package = pathlib.Path(queuecore.__file__).parent.parent
    paths = f"{package}:{pathlib.Path(__file__).parents[1]}"
    killed = 0
    while True:
        command = [sys.executable, "-P", "-c", CHILD, folder, name, log, str(state.choice([1, 2, 4]))]
        child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        if killed < KILLS // len(PIPELINES):
            time.sleep(state.uniform(0, 0.02))  # anywhere: when it is killed is the input of this test
            child.send_signal(signal.SIGKILL)
            killed += 1
        rest, _ = child.communicate(timeout=PATIENCE)
        if rest == "end\n":
            break
        assert child.returncode == -signal.SIGKILL
    lines = log.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line)["got"] for line in lines] == expected

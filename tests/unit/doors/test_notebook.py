"""Ctrl-C in a notebook: the cell ends, its kernel goes on, and so do the objects of the cells before it."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from helpers.process import AT_ONCE

import queuecore

pytestmark = pytest.mark.doors
manager = pytest.importorskip("jupyter_client.manager", reason="ipykernel is not installed: make doors")
pytest.importorskip("ipykernel")

PATIENCE = 30.0
BEGIN = """
import os
import queuecore as qc
from queuecore.data import Dataset, TextLineDataset
empty, full = qc.FIFOQueue(1, ["i4"], [()]), qc.FIFOQueue(1, ["i4"], [()])
full.enqueue(0)
python, coord = qc.stdqueue.Queue(), qc.Coordinator()
go, out = os.pipe()
def waits(x):
    return len(os.read(go, 1)) + x if x == 3 else x
it = iter(Dataset.range(6).map(waits))
before = [int(next(it)) for _ in range(3)]
"""
# What a cell waits in, what the next cell does so that it would have come, and what it then prints.
WAITS = {
    "dequeue": ("empty.dequeue()", "empty.enqueue(4); print(empty.dequeue())", "4"),
    "dequeue_many": ("empty.dequeue_many(1)", "empty.enqueue(4); print(empty.dequeue_many(1))", "[4]"),
    "enqueue": ("full.enqueue(1)", "print(full.dequeue(), full.size())", "0 0"),
    "get": ("python.get()", "python.put(4); print(python.get())", "4"),
    "wait_for_stop": ("coord.wait_for_stop()", "coord.request_stop(); print(coord.wait_for_stop(0))", "True"),
    "next": ("next(it)", "it.close(); print(before, empty.size())", "[0, 1, 2] 0"),
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    package = os.fspath(pathlib.Path(queuecore.__file__).parent.parent)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, os.fspath(tmp_path_factory.mktemp(name)))
        patch.setenv("PYTHONPATH", package)
        kernel_manager, client = manager.start_new_kernel(kernel_name="python3")
    yield kernel_manager, client
    client.stop_channels()
    kernel_manager.shutdown_kernel(now=True)


def run(client, code):
    """Run a cell to its end; return what it printed."""
    said = []
    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=said.append)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(one["content"]["text"] for one in said if one["msg_type"] == "stream").strip()


@pytest.mark.parametrize("call", WAITS)
def test_an_interrupt_ends_the_cell_alone(kernel, call):
    kernel_manager, client = kernel
    waits, then, printed = WAITS[call]
    run(client, BEGIN)
    # Not "stop on error": the kernel would abort cells that come within a moment after the error.
    number = client.execute(f"print('waits', flush=True)\n{waits}", stop_on_error=False)
    while client.get_iopub_msg(timeout=PATIENCE)["content"].get("text", "").strip() != "waits":
        pass
    time.sleep(0.05)  # that it waits shows nowhere: an interrupt before must end the cell as well
    begun = time.monotonic()
    kernel_manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=PATIENCE))["parent_header"].get("msg_id") != number:
        pass
    took = time.monotonic() - begun
    assert (reply["content"]["status"], reply["content"]["ename"]) == ("error", "KeyboardInterrupt")
    assert took < AT_ONCE
    assert run(client, then) == printed

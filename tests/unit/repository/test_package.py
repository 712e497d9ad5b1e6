"""The package as a whole: what it says of itself, and what it says when it can't be used."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import queuecore
from queuecore import _core

PACKAGE = Path(queuecore.__file__).parent


def run_python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in a folder, with the package's own folder not on its path."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={**clean, **environment}, capture_output=True, text=True, timeout=50
    )


def test_version_is_that_of_the_metadata():
    assert queuecore.__version__ == importlib.metadata.version("queuecore")


def test_all_names_exist_and_are_sorted():
    assert sorted(queuecore.__all__) == list(queuecore.__all__)
    for name in queuecore.__all__:
        assert hasattr(queuecore, name)


def test_numpy_is_the_only_requirement():
    requirements = importlib.metadata.requires("queuecore") or []
    assert [one for one in requirements if "extra ==" not in one] == ["numpy>=2"]


def test_console_script_points_at_the_command_line():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="queuecore")
    assert script.value == "queuecore.cli.main:main"
    assert callable(script.load())


def test_package_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_every_compiled_module_has_a_stub():
    made = {one.with_name(one.name.partition(".")[0]) for one in (PACKAGE / "_core").rglob("*.so")}
    made = {one for one in made if one.parent.name != "testing"}
    assert made
    assert {one for one in made if not one.with_suffix(".pyi").is_file()} == set()


def test_import_starts_no_thread_and_loads_no_extra(tmp_path):
    code = (
        "import os, sys, queuecore\n"
        "print(len(os.listdir('/proc/self/task')))\n"
        "print(*sorted({'cupy', 'sklearn', 'tqdm', 'torch', 'jax'} & set(sys.modules)))"
    )
    # NumPy's BLAS starts threads of its own.
    done = run_python("-c", code, cwd=tmp_path, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["1", ""]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_an_adapter_without_its_package_names_the_remedy(name, tmp_path):
    done = run_python("-c", f"import sys; sys.modules[{name!r}] = None; import queuecore.{name}", cwd=tmp_path)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert f"pip install {name}\n" in done.stderr


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """Return a folder that holds the Python files of the package and nothing compiled."""
    for file in PACKAGE.rglob("*.py"):
        target = tmp_path / "queuecore" / file.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    return tmp_path


def test_unbuilt_tree_names_the_remedy(unbuilt):
    done = run_python("-c", "import queuecore", cwd=unbuilt)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "make test" in done.stderr
    assert "build_ext --inplace" in done.stderr
    assert str(unbuilt) in done.stderr


def test_tree_built_for_another_python_counts_as_unbuilt(unbuilt):
    (unbuilt / "queuecore/_core/atoms/process.cpython-27-x86_64-linux-gnu.so").touch()
    (unbuilt / "queuecore/_core/atoms/process.pyi").touch()
    done = run_python("-c", "import queuecore", cwd=unbuilt)
    assert "build_ext --inplace" in done.stderr


def test_broken_extension_speaks_for_itself(unbuilt):
    # There, but no shared object: the advice to compile would hide what is wrong with it.
    (unbuilt / f"queuecore/_core/atoms/process{EXTENSION_SUFFIXES[0]}").write_bytes(b"not an ELF file")
    done = run_python("-c", "import queuecore; import queuecore._core.atoms.process", cwd=unbuilt)
    assert done.returncode == 1
    assert "build_ext" not in done.stderr


def test_require_compiled_is_silent_here():
    assert _core.require_compiled() is None


@pytest.mark.parametrize("name", ["torch", "tf1", "jax", "cli"])
def test_a_module_that_was_not_imported_says_so(name, tmp_path):
    done = run_python("-c", f"import queuecore; queuecore.{name}", cwd=tmp_path)
    assert f"AttributeError: module 'queuecore' has no attribute '{name}'" in done.stderr
    assert f"import queuecore.{name}" in done.stderr


def test_names_that_there_are_not():
    assert not hasattr(queuecore, "nothing_of_the_kind")
    with pytest.raises(AttributeError, match=r"queuecore\.tf1\.train\.Example"):
        _ = queuecore.train

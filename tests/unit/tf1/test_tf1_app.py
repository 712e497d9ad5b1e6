"""`queuecore.tf1.app`, and flags, with and without the package `absl`."""

import subprocess
import sys

import pytest

import queuecore.tf1 as tf

PROGRAM = """
import sys
import queuecore.tf1 as tf

def main(arguments):
    print("main", arguments[1:])
    return 3

if __name__ == "__main__":
    tf.app.run()
"""
# As much of absl as a program needs; the real one's own tests are not ours.
ABSL_APP = """
import sys
from absl import flags

def run(main, argv=None):
    sys.exit(main(flags.FLAGS(argv or sys.argv)))
"""
ABSL_FLAGS = """
class Values:
    def __call__(self, argv):
        self.size = int(argv[1].partition("=")[2])
        return argv[:1] + argv[2:]

FLAGS = Values()
def DEFINE_integer(name, default, text):
    setattr(FLAGS, name, default)
"""


def finished(program, folder, *arguments, path=""):
    file = folder / "program.py"
    file.write_text(program)
    code = f"import sys; sys.path[:0] = {[path] if path else []!r}; sys.argv = {[str(file), *arguments]!r}\n"
    code += f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)


def test_a_program_without_flags(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    done = finished("import sys, importlib.util\nfind = importlib.util.find_spec\n"
                    "importlib.util.find_spec = lambda name, *rest: None if name == 'absl' else find(name, *rest)\n"
                    + PROGRAM.replace("tf.app.run()", "tf.app.run(main)"), tmp_path, "a", "b")  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "main ['a', 'b']\n"), done.stderr


def test_flags_are_those_of_absl(tmp_path):
    package = tmp_path / "path" / "absl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(ABSL_APP)
    (package / "flags.py").write_text(ABSL_FLAGS)
    program = PROGRAM.replace("def main", "tf.flags.DEFINE_integer('size', 1, 'how many')\n\ndef main").replace(
        'print("main"', 'print("main", tf.app.flags.FLAGS.size'
    )
    program = program.replace("tf.app.run()", "tf.app.run(main)")
    done = finished(program, tmp_path, "--size=7", "x", path=str(package.parent))
    assert (done.returncode, done.stdout) == (3, "main 7 ['x']\n"), done.stderr


def test_without_absl_flags_name_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "absl", None)
    for read in (lambda: tf.flags, lambda: tf.app.flags):
        with pytest.raises(tf.errors.UnimplementedError, match="pip install absl-py"):
            read()
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = tf.app.walk

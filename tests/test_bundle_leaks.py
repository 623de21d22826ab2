"""Nothing that was decrypted reaches a file: seen from outside with strace, and from inside with an
audit hook. Each is first shown to notice a leak.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bundles import SECRET, Keys, make, model

from litedelegate.customops import include_dir
from litedelegate.customops.bundle import Library, this_platform

# what a machine does with a bundle: opens it, runs its model, shows it, meets errors, closes it
USE = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
import numpy as np
from litedelegate.customops.bundle import Bundle, BundleError, Key
path, reader, signer, leak, log = sys.argv[1:]
key, trusted = Key.from_file(reader), [Key.from_file(signer)]
with Bundle.open(path, key=key, trusted=trusted) as bundle:
    assert secret in bytes(bundle.model())
    interpreter = bundle.interpreter()
    print(interpreter.run({"x": np.zeros(5, np.float32)}), bundle, interpreter.nodes)
    try:
        interpreter.run({"x": np.zeros((2, 5, 7), np.float64)})
    except ValueError as error:
        print(error)
    if leak:
        with open(leak, "wb") as file:
            file.write(bundle.model())
    interpreter.close()
for change in (lambda d: d[:-1], lambda d: d[:-1] + b"~"):
    try:
        Bundle.open(change(open(path, "rb").read()), key=key, trusted=trusted)
    except BundleError as error:
        logging.exception(error)
"""
AUDIT = """
import os, sys
writes, told = [], []
def hear(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) and os.readlink(f"/proc/self/fd/{path}").startswith("/memfd:"):
            return  # memory, where op libraries are loaded from
        if mode is not None and set(mode) & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            writes.append(str(path))
    elif event.startswith(("tempfile.", "subprocess.", "socket.", "os.rename", "shutil.", "mmap.")):
        writes.append(event)
sys.addaudithook(hear)
"""
SHOW = """
open_files = []
if os.path.isdir("/proc/self/fd"):
    for fd in os.listdir("/proc/self/fd"):
        try:
            open_files.append((int(fd), os.readlink("/proc/self/fd/" + fd)))
        except OSError:
            pass
print("WRITES", writes)
print("OPEN", [name for fd, name in open_files if fd > 2 and name.startswith("/")
               and not name.startswith(("/proc/", "/memfd:"))])
"""
# backwards: the text of the program is in the trace too
SECRET_LINE = f"secret = {SECRET[::-1]!r}[::-1]\n"


@pytest.fixture(scope="module")
def files(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("leaks")
    keys = Keys.make()
    libraries = []
    compiler = shutil.which("cc")
    if compiler is not None and sys.platform == "linux":
        source = root / "examples" / "atan_c" / "atan.c"
        flags = ["-shared", "-fPIC", f"-I{include_dir()}", "-o", folder / "ops.so", source, "-lm"]
        subprocess.run([compiler, *map(str, flags)], check=True)
        content = (folder / "ops.so").read_bytes() + SECRET
        libraries = [Library("ops", this_platform(), content, ("Atan",))]
    make(folder / "b.ldb", keys, models={"main": model(zeros=30_000)}, libraries=libraries)
    keys.reader.save(folder / "reader")
    keys.signer.public().save(folder / "signer")
    return [str(folder / name) for name in ("b.ldb", "reader", "signer")]


def use(
    files: list[str], root: Path, code: str, leak: str = "", before: tuple[str, ...] = ()
) -> str:
    """Output and errors of a process that uses the bundle."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [*before, sys.executable, "-c", code, *files, leak, ""]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    output = done.stdout + done.stderr
    assert b"BundleTruncated" in output and b"BundleAltered" in output
    assert SECRET not in output
    return output.decode()


@pytest.mark.parametrize("leak", [False, True])
def test_the_system_sees_no_decrypted_byte_written(
    files: list[str], root: Path, tmp_path: Path, leak: bool
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    trace, target = tmp_path / "trace", str(tmp_path / "leaked") if leak else ""
    calls = "trace=%file,%network,write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,vmsplice"
    calls += ",copy_file_range,memfd_create,mmap,execve"
    before = (strace, "-f", "-y", "-qq", "-s", "1000000", "-e", calls, "-o", str(trace))
    if subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("strace cannot trace here")
    use(files, root, SECRET_LINE + USE, target, before)
    lines = trace.read_text(errors="replace").splitlines()
    # op libraries are loaded from a file in memory
    text = "\n".join(line for line in lines if not re.search(r"write\(\d+</memfd:", line))
    opened = [line for line in text.splitlines() if re.search(r"\bopen(at)?2?\(", line)]
    assert any(f'"{files[0]}"' in line for line in opened)  # the trace is of the right process
    written = [line for line in opened if re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE", line)]
    written = [line for line in written if "ENOENT" not in line and '"/dev/null"' not in line]
    shared = [line for line in text.splitlines() if "MAP_SHARED" in line and "PROT_WRITE" in line]
    moved = re.findall(r"\b(?:rename\w*|link\w*|mkdir\w*|mknod\w*|creat)\(", text)
    assert ([target] if leak else []) == [re.findall(r'"([^"]*)"', line)[0] for line in written]
    assert (not moved, not shared) == (True, True)
    assert (SECRET.decode() in text) is leak


@pytest.mark.parametrize("leak", [False, True])
def test_python_opens_nothing_to_write(
    files: list[str], root: Path, tmp_path: Path, leak: bool
) -> None:
    target = str(tmp_path / "leaked") if leak else ""
    output = use(files, root, SECRET_LINE + AUDIT + USE + SHOW, target)
    assert f"WRITES {[target] if leak else []}" in output
    assert "OPEN []" in output

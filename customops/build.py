"""Builds a shared library of custom ops from C or C++: `litedelegate op build`."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import include_dir
from .platforms import TARGETS, this_platform, triple

CPP = (".cc", ".cpp", ".cxx", ".c++")
C = (".c",)


class BuildFailed(RuntimeError):
    """No library came of it; the text has the compiler's own words."""


def suffix(target: str | None = None) -> str:
    """Of a shared library's file name."""
    system = (target or this_platform()).split("-")[1]
    return {"windows": ".dll", "macos": ".dylib"}.get(system, ".so")


def find_compiler(cpp: bool) -> list[str]:
    """CXX or CC of the environment, or a compiler by its usual names. BuildFailed where none is."""
    variable = "CXX" if cpp else "CC"
    named = os.environ.get(variable)
    if named:
        try:
            words = shlex.split(named)
        except ValueError as e:
            raise BuildFailed(f"{variable} is {named!r}, which is no command line: {e}") from e
        if not words or shutil.which(words[0]) is None:
            raise BuildFailed(f"{variable} is {named!r}, and there is no such program")
        return words
    names = ("c++", "g++", "clang++") if cpp else ("cc", "gcc", "clang")
    for name in names:
        found = shutil.which(name)
        if found:
            return [found]
    raise BuildFailed(
        f"no {'C++' if cpp else 'C'} compiler: looked for {', '.join(names)} on PATH. Install one, "
        f"set {variable}, or give --target with pip install 'litedelegate[build]'"
    )


def _zig(cpp: bool, target: str) -> list[str]:
    if importlib.util.find_spec("ziglang") is None:
        raise BuildFailed(
            "building for a target takes zig's compiler: pip install 'litedelegate[build]'"
        )
    command = [sys.executable, "-m", "ziglang", "c++" if cpp else "cc"]
    return [*command, "-target", TARGETS[target]]


def build_op_library(
    sources: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    flags: Sequence[str] = (),
) -> Path:
    """Compiles and links; the library's path, by default the first source's with the suffix of
    shared libraries.

    `target`: one of `platforms.TARGETS`, built by zig; None: this machine, by its compiler. `flags`
    go to the compiler last. BuildFailed where it fails.
    """
    paths = [Path(s) for s in sources]
    target = None if target is None else triple(target)
    if target is not None and target not in TARGETS:
        raise BuildFailed(f"no target {target!r}; there are {', '.join(TARGETS)}")
    if not paths:
        raise BuildFailed("no source is given")
    for path in paths:
        if path.suffix.lower() not in C + CPP:
            raise BuildFailed(f"{path} is no source: {' '.join(C + CPP)} are taken")
        if not path.is_file():
            raise BuildFailed(f"there is no file {path}")
    cpp = any(p.suffix.lower() in CPP for p in paths)
    made = Path(output) if output is not None else paths[0].with_suffix(suffix(target))
    compiler = find_compiler(cpp) if target is None else _zig(cpp, target)
    windows = suffix(target) == ".dll"
    options = [
        *("-shared", "-O2", "-fvisibility=hidden", f"-I{include_dir()}"),
        *([] if windows else ["-fPIC"]),
    ]
    inputs: list[str] = []
    for path in paths:  # a C++ compiler takes .c for C++ too
        as_c = cpp and path.suffix.lower() in C
        inputs += ["-x", "c", str(path), "-x", "none"] if as_c else [str(path)]
    command = [*compiler, *options, *inputs, "-o", str(made), *flags]
    command += [] if windows else ["-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as e:
        raise BuildFailed(f"{compiler[0]} cannot be run: {e}") from e
    if done.returncode:
        raise BuildFailed(
            f"{shlex.join(command)}\nended with {done.returncode}:\n"
            f"{(done.stderr or done.stdout).strip()}"
        )
    return made

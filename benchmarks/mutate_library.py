"""Mutation test of the library loader: damages shared libraries at random, loads them, and looks
for anything but one kind of exception.

    python benchmarks/mutate_library.py --count 50000

Each case damages what the system's loader reads of a file: its headers, and (`--where tables`) the
tables of names, symbols, hashes, versions and relocations. Code and data are left alone: what is
loaded runs. Cases run in child processes, so that a crash is counted and does not end the test. The
libraries are an operator's, a classic operator's and a delegate's. The damage of case i of a seed
is the same in each run: `--only i` repeats it.
"""

from __future__ import annotations

import argparse
import collections
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("examples/atan_c/atan.c", "tests/c_ops/classic.c", "tests/c_ops/delegate.c")
TABLES = ("dynsym", "dynstr", "hash", "version", "rela", "dynamic")
BATCH = 500


def areas(data: bytes, where: str) -> list[tuple[int, int]]:
    """What may be damaged: offsets and sizes."""
    headers, sections = struct.unpack_from("<QQ", data, 32)
    size, count, section_size, sections_count, names = struct.unpack_from("<5H", data, 54)
    found = [(0, 64), (headers, size * count)]
    found.append((sections, section_size * sections_count))
    if where == "headers":
        return found
    rows = [
        struct.unpack_from("<IIQQQQIIQQ", data, sections + i * section_size)
        for i in range(sections_count)
    ]
    texts = rows[names][4]
    for name, _, _, _, offset, length, *_ in rows:
        text = data[texts + name : data.index(b"\0", texts + name)].decode()
        if length and any(t in text for t in TABLES):
            found.append((offset, length))
    return found


def damage(good: bytes, where: list[tuple[int, int]], rng: np.random.Generator) -> bytes:
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 4))):
        start, size = where[int(rng.integers(len(where)))]
        at = start + int(rng.integers(size))
        kind = int(rng.integers(4))
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at] = int(rng.integers(256))
        else:
            width = int(rng.choice([2, 4, 8]))
            value = int(rng.choice([0, 1, 0x7F, 0xFF, int(rng.integers(256))]))
            end = min(at + width, len(data))
            data[at:end] = bytes([value]) * (end - at)
    return bytes(data[: int(rng.integers(len(data)))] if rng.integers(20) == 0 else data)


def case(libraries: list[bytes], where: str, seed: int, number: int) -> tuple[int, bytes]:
    rng = np.random.default_rng([seed, number])
    which = number % len(libraries)
    good = libraries[which]
    return which, damage(good, areas(good, where), rng)


def child(paths: list[str], where: str, seed: int, first: int, last: int) -> None:
    """Prints the number of each case before it, and its outcome."""
    from litedelegate import OpLibraryError, load_delegate, load_op_library

    libraries = [Path(p).read_bytes() for p in paths]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            print(number, end=" ", flush=True)
            which, data = case(libraries, where, seed, number)
            start = time.perf_counter()
            try:
                if which == 2:
                    path = Path(folder, f"lib{number}.so")
                    path.write_bytes(data)
                    load_delegate(path)
                else:
                    load_op_library(data)
                outcome = "loaded"
            except OpLibraryError as e:
                outcome = "refused by the system" if "cannot be loaded" in str(e) else "refused"
            except ValueError as e:
                if which != 2 or not str(e).startswith("Failed to load delegate"):
                    raise
                outcome = "refused by the system" if "it is no library" not in str(e) else "refused"
            if time.perf_counter() - start > 5:
                outcome = "slow"
            print(outcome, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, in this process")
    parser.add_argument("--where", choices=("headers", "tables"), default="headers")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--paths", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.paths, options.where, options.seed, *options.child)
        return
    from litedelegate.customops.build import build_op_library

    with tempfile.TemporaryDirectory() as folder:
        paths = [
            str(build_op_library([ROOT / s], Path(folder, f"{i}.so")))
            for i, s in enumerate(SOURCES)
        ]
        if options.only is not None:
            child(paths, options.where, options.seed, options.only, options.only + 1)
            return
        report(paths, options.where, options.seed, options.count)


def report(paths: list[str], where: str, seed: int, count: int) -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    bad: list[tuple[int, str]] = []
    start, at = time.perf_counter(), 0
    while at < count:
        end = min(at + BATCH, count)
        command = [sys.executable, __file__, "--where", where, "--seed", str(seed)]
        command += ["--child", str(at), str(end), "--paths", *paths]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        finished = [line.partition(" ")[2] for line in lines if " " in line.strip()]
        outcomes.update(finished)
        at += len(finished)
        if done.returncode:
            what = f"signal {-done.returncode}" if done.returncode < 0 else done.stderr[-300:]
            bad.append((at, what))
            outcomes["crashed" if done.returncode < 0 else "another exception"] += 1
            at += 1
    seconds = time.perf_counter() - start
    print(json.dumps({"cases": count, "where": where, "seconds": round(seconds), **outcomes}))
    for number, what in bad[:20]:
        print(f"case {number}: {what}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

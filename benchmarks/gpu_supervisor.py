"""Runs the parts of `gpu_check.py` as processes, and says in a few lines what they found.

A kernel that hangs or faults takes its process along: it is killed at the end of its time, or
started again, and goes on behind the item at which it was.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NO_DEVICE, LOST = 2, 3  # exit statuses of a part
GRACE = 20.0  # seconds beyond its time, before a part is killed
MOST_STARTS = 5
MOST_LINES = 30

Result = dict[str, Any]
Command = Callable[[str, float], Sequence[str]]


def read(out: Path) -> Result:
    found: Result = json.loads(out.read_text()) if out.exists() else {}
    return found


def supervise(
    parts: Sequence[tuple[str, float]], seconds: float, out: Path, command: Command
) -> int:
    """`parts`: names, and at which share of the time each has to end. `command` gives that of a
    process for a part, which has so many seconds and keeps what it finds in `out`."""
    begin = time.perf_counter()
    for name, share in parts:
        end = begin + share * seconds
        for start in range(MOST_STARTS):
            left = max(end - time.perf_counter(), 0.0)
            if start and not left:
                break
            status = _run(command(name, left), left + GRACE)
            if status == NO_DEVICE:
                return NO_DEVICE
            if status == 0:
                break
            found = read(out)
            if "now" not in found and status != LOST:  # before any item: it would do so again
                _note(out, found, f"{name}: the process ended with {status}")
                break
    found = read(out)
    if "now" in found:  # nobody came after it
        _note(out, found, f"{found.pop('now')}: the process ended")
    lines = [*summary(found)[: MOST_LINES - 1], f"all is in {out}"]
    print("\n".join(lines), flush=True)
    return int(bool(found.get("wrong")))


def _run(arguments: Sequence[str], most: float) -> int:
    try:
        return subprocess.run(arguments, timeout=most, check=False).returncode
    except subprocess.TimeoutExpired:  # and killed
        return -9


def _note(out: Path, found: Result, wrong: str) -> None:
    found.setdefault("wrong", []).append(wrong)
    out.write_text(json.dumps(found, indent=1))


def summary(found: Result) -> list[str]:
    """What is wrong first; then counts, and ratios of times."""
    environment, wrong = found.get("environment", {}), found.get("wrong", [])
    lines = [f"{environment.get('device')}: {len(wrong)} things are wrong"]
    lines += [f"  {' '.join(text.split())[:160]}" for text in wrong[:10]]
    units = {k: v for k, v in found.get("fragments", {}).items() if k != "seconds"}
    right = sum(v == "right" for v in units.values())
    lines.append(f"matrix units: {right} of {len(units)} checks right")
    lines.append(f"cases: {found.get('cases', {}).get('counts')}")
    models = [m for m in found.get("models", {}).values() if isinstance(m, dict) and "off" in m]
    whole = sum(m["share_of_work"] > 0.999 for m in models)
    lines.append(f"models: {len(models)} run, {whole} of them on the device alone")
    for way in ("one by one", "graphs", "half"):
        ratios = [m["ms"][way] / m["ms"]["numpy"] for m in models if m["ms"].get("numpy")]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"  {way}: {mean:.3f} of numpy's time (geometric mean)")
    for name, entry in found.get("operators", {}).items():
        if isinstance(entry, dict):
            times = {k: v for k, v in entry["ms"].items() if not isinstance(v, str)}
            lines.append(f"{name}, ms: {', '.join(f'{k} {v:.4f}' for k, v in times.items())}")
    return lines

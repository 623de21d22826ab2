"""The texts of kernels/device share programs: what one leaves defined, no other may define."""

from __future__ import annotations

import re
from collections import defaultdict

from conftest import ROOT
from test_device import KEYS, claim

from litedelegate.kernels.device import PROFILES, Kernel

TEXTS = sorted((ROOT / "kernels" / "device").glob("*.c"))


def macros(text: str, directive: str) -> set[str]:
    return set(re.findall(rf"^\s*#\s*{directive}\s+(\w+)", text, re.M))


def test_macros_do_not_clash() -> None:
    defined: dict[str, set[str]] = defaultdict(set)  # macro -> who defines it
    left: dict[str, str] = {}
    for path in TEXTS:
        text = path.read_text("utf-8")
        for name in macros(text, "define"):
            defined[name].add(path.name)
        for name in macros(text, "define") - macros(text, "undef"):
            assert name not in left, f"{path.name} and {left[name]} leave {name} defined"
            left[name] = path.name
    for profile in ("pocl-cpu", "opencl-gpu"):
        for key in KEYS:
            lowered = claim(key, PROFILES[profile]).lowered
            for step in lowered.steps if lowered is not None else ():
                if isinstance(step, Kernel):
                    for name in step.defines:
                        defined[name.partition("(")[0]].add(key)
    for name, path_name in left.items():
        others = defined[name] - {path_name}
        assert not others, f"{path_name} leaves {name} defined, which {sorted(others)[:3]} define"

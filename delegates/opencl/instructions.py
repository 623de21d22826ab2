"""Instructions of a CPU for which OpenCL C has no words: how a compiler gives them, if it does.

Three ways are tried, as options for prelude.h: what Clang calls a builtin, assembler, and LLVM's
intrinsic by its name. The last is for compilers that work on a neutral target (Intel's), which know
neither; where types or CPU are others than it takes, such a compiler ends its process, so that it
is asked in another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .find import devices, library

if TYPE_CHECKING:
    from .device import OpenCLDevice

_SECONDS = 60.0  # after which a compiler is taken not to answer
_BYTES64 = "typedef char char64 __attribute__((ext_vector_type(64)));\n"
# a compiler that knows that the CPU has the instruction ...
_DOT4_BUILTIN = """kernel void k(global int16* p, int a)
{ *p = __builtin_ia32_vpdpbusd512(*p, (int16)(a), *p); }"""
# ... and one that takes the CPU for an older one
_DOT4_ASSEMBLER = """kernel void k(global int16* p, int a)
{ int16 c = *p; __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"((int16)(a)), "v"(*p)); *p = c; }"""
_DOT4_INTRINSIC = f"""{_BYTES64}
int16 dot4(int16, char64, char64) __asm__("llvm.x86.avx512.vpdpbusd.512");
kernel void k(global int16* p, global char64* q) {{ *p = dot4(*p, q[0], q[1]); }}"""
_LOOKUP_ASSEMBLER = """kernel void k(global int16* p)
{ int16 c = *p; __asm__("vpermi2b %2, %1, %0" : "+v"(c) : "v"(p[1]), "v"(p[2])); *p = c; }"""
_LOOKUP_INTRINSIC = f"""{_BYTES64}
char64 lookup(char64, char64, char64) __asm__("llvm.x86.avx512.vpermi2var.qi.512");
kernel void k(global char64* p) {{ *p = lookup(p[0], p[1], p[2]); }}"""
_CHILD = f"""import json, sys
sys.path[:] = json.loads(sys.argv[1])
from {__name__} import attempt
attempt(int(sys.argv[2]), sys.argv[3])"""


def dot4(device: OpenCLDevice) -> list[str]:
    """The options with which `DOT4_U8I8` is there; none where it is not."""
    if not device.fault(_DOT4_BUILTIN):
        return ["-DHAS_DOT4"]
    if "avx512_vnni" not in _cpu_flags():
        return []
    if not device.fault(_DOT4_ASSEMBLER):
        return ["-DHAS_DOT4", "-DDOT4_ASSEMBLER"]
    return ["-DHAS_DOT4", "-DDOT4_INTRINSIC"] if survives(device, _DOT4_INTRINSIC) else []


def lookup(device: OpenCLDevice) -> list[str]:
    """The option with which `LOOKUP_16` is a few instructions; none where it is a loop."""
    if "avx512vbmi" not in _cpu_flags():
        return []
    if not device.fault(_LOOKUP_ASSEMBLER):
        return ["-DLOOKUP_ASSEMBLER"]
    return ["-DLOOKUP_INTRINSIC"] if survives(device, _LOOKUP_INTRINSIC) else []


def survives(device: OpenCLDevice, source: str) -> bool:
    """Whether a process that builds this text for the device ends well; kept with its programs."""
    parts = ["survives", source, *device.identity()]
    known = device.cache.get(parts)
    if known is None:
        ended_well = _attempted(device.device, source)
        known = b"1" if ended_well else b"0"
        if ended_well is not None:
            device.cache.put(parts, known)
    return known == b"1"


@cache
def _attempted(device: Any, source: str) -> bool | None:
    """None where there was nobody to ask."""
    known = devices()
    python = Path(sys.executable or "").stem.startswith("python") and not hasattr(sys, "frozen")
    if not python or device not in known:
        return None
    words = (sys.executable, "-c", _CHILD, json.dumps(sys.path), str(known.index(device)), source)
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode == 0


def attempt(index: int, source: str) -> None:
    """Builds a text for that one of all devices. Raises, or worse, where that does not work."""
    cl = library()
    context = cl.Context([devices()[index]])
    warnings.simplefilter("ignore", cl.CompilerWarning)
    cl.Program(context, source).build(cache_dir=False)


@cache
def _cpu_flags() -> frozenset[str]:
    """What Linux says that the CPU has; nothing on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((x for x in lines if x.startswith("flags")), "").split())

"""NVRTC, through CuPy's binding: from text to a cubin, and the disk cache before it.

CuPy's own `RawModule` compiles too, but always adds -ftz=true (`cupy/cuda/compiler.py`,
`_compile_with_cache_cuda`), with which denormals become zero, as nowhere else.
"""

from __future__ import annotations

from typing import Any

from ...runtime.delegate import BuildError, Unavailable
from ..gpu.cache import ProgramCache

# products and sums are each rounded, so that integers made from floats are numpy's; what may be
# fused says MAD
OPTIONS = ("--std=c++17", "-fmad=false", "--disable-warnings")


class Compiler:
    """For devices of one compute capability, "90" and the like."""

    def __init__(self, cupy: Any, compute_capability: str, cache: ProgramCache) -> None:
        self._nvrtc = nvrtc = cupy.cuda.nvrtc
        self._cache = cache
        try:
            version = nvrtc.getVersion()
            known = sorted(nvrtc.getSupportedArchs())
        except Exception as e:  # the loader's error, in CuPy's words
            raise Unavailable(
                f"CuPy finds no NVRTC, CUDA's compiler ({e}). It looks in the CUDA toolkit, in "
                "CUDA_PATH and among pip's packages: pip install nvidia-cuda-nvrtc"
            ) from e
        wanted = int(compute_capability)
        if not known or wanted < known[0]:
            raise Unavailable(
                f"NVRTC {'.'.join(map(str, version))} compiles for compute capabilities {known}; "
                f"the device has {wanted}. An older CuPy and CUDA serve it."
            )
        if wanted in known:
            self.architecture = f"sm_{wanted}"
        else:  # newer than this NVRTC: the driver compiles for it
            self.architecture = f"compute_{max(k for k in known if k < wanted)}"
        versions = f"NVRTC {version}", f"CuPy {cupy.__version__}"
        self.identity = (*versions, self.architecture, *OPTIONS)

    def binary(self, source: str, driver: str) -> tuple[bytes, bool]:
        """A cubin, or PTX for a device that NVRTC does not know, and whether it was on disk.

        `driver`: its version, which is part of the key. BuildError with the compiler's log.
        """
        parts = [source, *self.identity, driver]
        found = self._cache.get(parts)
        if found:
            return found, True
        found = self.compile(source)
        self._cache.put(parts, found)
        return found, False

    def forget(self, source: str, driver: str) -> None:
        """The next `binary` compiles."""
        self._cache.put([source, *self.identity, driver], b"")

    def compile(self, source: str) -> bytes:
        """As `binary`, without the cache."""
        nvrtc = self._nvrtc
        program = nvrtc.createProgram(source, "litedelegate.cu", (), ())
        try:
            nvrtc.compileProgram(program, (f"-arch={self.architecture}", *OPTIONS))
            if self.architecture.startswith("compute"):
                return bytes(nvrtc.getPTX(program))
            # CuPy takes the last byte for the end of a string (`nvrtc.pyx`, getCUBIN)
            return bytes(nvrtc.getCUBIN(program)) + b"\0"
        except nvrtc.NVRTCError as e:
            lines = str(nvrtc.getProgramLog(program)).strip().splitlines()
            log = "; ".join(line.strip() for line in lines[:20])
            raise BuildError(f"NVRTC does not build the kernels: {log or e}") from e
        finally:
            nvrtc.destroyProgram(program)

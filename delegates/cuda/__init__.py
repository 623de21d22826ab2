"""The CUDA delegate: NVIDIA GPUs through CuPy."""

from .delegate import CUDADelegate

__all__ = ["CUDADelegate"]

"""The OpenCL delegate: any device that PyOpenCL reaches."""

from .delegate import OpenCLDelegate

__all__ = ["OpenCLDelegate"]

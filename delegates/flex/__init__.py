"""Runs TensorFlow's own operators ("Flex…"), where TensorFlow is installed."""

from .delegate import FlexDelegate

__all__ = ["FlexDelegate"]

"""Delegates: each takes the part of a graph that its device can run."""

"""Which kernels a compiler does not take, out of a program of many."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.delegate import BuildError
from .build import build
from .device import Device
from .texts import Text


def blame(device: Device, texts: Sequence[Text], error: BuildError) -> dict[str, BuildError]:
    """The kernels that do not build, by name, each with its own error; `error` is that of all.

    By halves, so that one bad text among many costs a few builds. Texts that build alone and not
    together clash: those are blamed that ops brought along, and without any, all.
    """
    texts = list({t.name: t for t in texts}.values())
    if len(texts) == 1:
        return {texts[0].name: error}
    middle = len(texts) // 2
    found: dict[str, BuildError] = {}
    for half in (texts[:middle], texts[middle:]):
        try:
            build(device, half)
        except BuildError as e:
            found |= blame(device, half, e)
    if not found:
        given = [t for t in texts if t.brought]
        found = {t.name: error for t in given or texts}
    return found

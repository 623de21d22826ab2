"""How kernels are built: in programs of a few, side by side, with word of how far it is."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from litedelegate.delegates.gpu.build import build, listening
from litedelegate.delegates.gpu.dry import DryDevice
from litedelegate.delegates.gpu.texts import Text
from litedelegate.kernels.device import PROFILES
from litedelegate.runtime.delegate import BuildError


class Compiler(DryDevice):
    """Takes any text but one with "bad" in it; the first two builds wait for each other."""

    builders = 2

    def __init__(self) -> None:
        super().__init__(PROFILES["intel-cpu"])
        self.asked: list[Sequence[str]] = []
        self.together = threading.Barrier(2, timeout=20)

    def build(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        self.asked.append(names)
        if len(self.asked) <= 2:
            self.together.wait()
        if "bad" in source:
            raise BuildError("no such thing as bad")
        return {name: f"built {name}" for name in names}


def texts(count: int, *more: str) -> list[Text]:
    sources = [f"KERNEL void KERNEL_NAME() {{ /* {i} */ }}" for i in range(count)]
    return [Text(s, (), (1,), None, (), False, False) for s in (*sources, *more)]


def test_side_by_side_with_word_of_how_far_it_is() -> None:
    device, given = Compiler(), texts(20)
    told: list[tuple[int, int]] = []
    with listening(lambda done, count: told.append((done, count))):
        built = build(device, [*given, *given])
    assert built == {t.name: f"built {t.name}" for t in given}
    assert sorted(n for names in device.asked for n in names) == sorted(built)
    assert told[0] == (0, 20)
    assert told[-1] == (20, 20)
    assert told == sorted(told)
    assert len(told) == 1 + len(device.asked) > 3
    build(Compiler(), given)
    assert len(told) == 1 + len(device.asked)  # nobody listens any more


def test_one_bad_kernel_fails_the_build() -> None:
    device = Compiler()
    with pytest.raises(BuildError, match="no such thing as bad"):
        build(device, texts(20, "KERNEL void KERNEL_NAME() { bad }"))

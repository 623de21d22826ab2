"""Options of delegates that are none: refused where the delegate is made, with what is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_delegates import zigzag

from litedelegate import Interpreter
from litedelegate.delegates.cuda import CUDADelegate
from litedelegate.delegates.opencl import OpenCLDelegate

FLAGS = [
    *[(OpenCLDelegate, name) for name in ("half",)],
    *[(CUDADelegate, name) for name in ("half", "graphs", "cublas", "tf32")],
]


@pytest.mark.parametrize(("make", "name"), FLAGS)
@pytest.mark.parametrize("value", ["no", 0, None, 1.0])
def test_flags(make: Any, name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} is True or False, not {value!r}"):
        make(**{name: value})


@pytest.mark.parametrize("make", [OpenCLDelegate, CUDADelegate])
@pytest.mark.parametrize("value", [1.5, True, b"Intel", ["Intel"]])
def test_what_chooses_no_device(make: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="device is a number or a part of a name, not"):
        make(device=value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'halves'"):
        make(halves=True)


def test_numpys_kinds_are_taken(cupy: Any, tmp_path: Any) -> None:
    made = CUDADelegate(np.int64(0), half=np.bool_(True), cache=tmp_path)
    assert made.half is True
    with pytest.raises(TypeError, match="cublas_from is a whole number, not '16M'"):
        CUDADelegate(cublas_from="16M", cache=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["strict", "flex"])
def test_flags_of_the_interpreter(name: str) -> None:
    options: dict[str, Any] = {name: "no"}
    with pytest.raises(TypeError, match=f"{name} is True or False, not 'no'"):
        Interpreter(model_content=zigzag(), **options)

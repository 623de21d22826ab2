"""Matrix units: fragments where PTX has them, and the products of matrices that are made of them.

The PTX ISA's tables ("Matrix Fragments for mma.m…n…k…") are written down in `LAYOUTS`. Against them
go what the CUDA prelude asks PTX for, by its operands, and what OpenCL acts out, by its results; on
a GPU, the unit itself.
"""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from devices import cuda_device, device
from harness import Prepared
from test_device_products import KINDS, made_node

from litedelegate.delegates.gpu.device import Device
from litedelegate.delegates.gpu.fuse import Item
from litedelegate.delegates.gpu.plan import Plan
from litedelegate.kernels.api import NodeSpec, Options, TensorSpec
from litedelegate.kernels.builtins import find_builtin
from litedelegate.kernels.device import PROFILES, Kernel, Lowered, Source
from litedelegate.kernels.types import Array, DType

Place = Callable[[int, int, int], tuple[int, int]]


def _c(g: int, t: int, i: int) -> tuple[int, int]:
    return g + 8 * (i >= 2), t * 2 + (i & 1)


# shape: type of the factors, then for A, B and C how many elements a lane has, and the row and
# column of element i in lane 4 * g + t
LAYOUTS: dict[str, tuple[Any, tuple[tuple[int, Place], ...]]] = {
    "m16n8k32": (
        np.int8,
        (
            (16, lambda g, t, i: (g + 8 * (i // 4 % 2), t * 4 + (i & 3) + 16 * (i >= 8))),
            (8, lambda g, t, i: (t * 4 + (i & 3) + 16 * (i >= 4), g)),
            (4, _c),
        ),
    ),
    "m8n8k16": (
        np.int8,
        (
            (4, lambda g, t, i: (g, t * 4 + i)),
            (4, lambda g, t, i: (t * 4 + i, g)),
            (2, lambda g, t, i: (g, t * 2 + i)),
        ),
    ),
    "m16n8k16": (
        np.float16,
        (
            (8, lambda g, t, i: (g + 8 * (i // 2 % 2), t * 2 + (i & 1) + 8 * (i >= 4))),
            (4, lambda g, t, i: (t * 2 + (i & 1) + 8 * (i >= 2), g)),
            (4, _c),
        ),
    ),
    "m16n8k8": (
        np.float16,
        (
            (4, lambda g, t, i: (g + 8 * (i >= 2), t * 2 + (i & 1))),
            (2, lambda g, t, i: (t * 2 + i, g)),
            (4, _c),
        ),
    ),
}
WHOLE = {"MMA_I8": "m16n8k32", "MMA_F16": "m16n8k16"}


def product(shape: str, a: Array, b: Array, c: Array) -> Array:
    """What `mma` leaves in c: registers [32 lanes, words] in and out."""
    dtype, layouts = LAYOUTS[shape]
    m, n, k = (int(v) for v in re.findall(r"\d+", shape))
    given = np.ascontiguousarray(a).view(dtype), np.ascontiguousarray(b).view(dtype), c
    sizes = (m, k), (k, n), (m, n)
    matrices, places = [], []
    for registers, (count, place), size in zip(given, layouts, sizes, strict=True):
        assert registers.shape == (32, count)
        at = np.array(
            [[place(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)]
        ).reshape(-1, 2)
        assert len({tuple(p) for p in at.tolist()}) == len(at) == size[0] * size[1]
        matrix = np.full(size, 99, c.dtype)
        matrix[at[:, 0], at[:, 1]] = registers.reshape(-1)
        matrices.append(matrix)
        places.append(at)
    result = matrices[0] @ matrices[1] + matrices[2]
    return result[places[2][:, 0], places[2][:, 1]].reshape(c.shape)


@cache
def fragments(macro: str) -> tuple[Array, Array, Array]:
    """Registers of 64 lanes, with small whole numbers, whose sums floats hold exactly."""
    rng = np.random.default_rng(len(macro))
    dtype = LAYOUTS[WHOLE[macro]][0]
    each = 4 // np.dtype(dtype).itemsize
    a, b = (rng.integers(-9, 10, (64, n * each)).astype(dtype).view(np.int32) for n in (4, 2))
    c = rng.integers(-99, 100, (64, 4)).astype(np.int32 if dtype is np.int8 else np.float32)
    return a, b, c


def wanted(macro: str) -> Array:
    a, b, c = fragments(macro)
    return np.concatenate([product(WHOLE[macro], a[s], b[s], c[s]) for s in (_FIRST, _SECOND)])


_FIRST, _SECOND = slice(0, 32), slice(32, 64)


# -- what CUDA is told


@pytest.mark.parametrize("architecture", [750, 800])
@pytest.mark.parametrize("macro", WHOLE)
def test_operands_of_ptx(macro: str, architecture: int) -> None:
    """The instructions of the prelude, run on the layouts that PTX gives each of them."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C preprocessor")
    text = files("litedelegate.delegates.cuda").joinpath("prelude.h").read_text("utf-8")
    options = ["-E", "-P", "-x", "c", f"-D__CUDA_ARCH__={architecture}", "-"]
    expanded = subprocess.run(
        [compiler, *options],
        input=f"{text}\nEXPANDED {macro}(c, a, b)",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.partition("EXPANDED")[2]
    a, b, c = (r[_FIRST] for r in fragments(macro))
    registers = {"a": a, "b": b, "c": c.copy()}
    instructions = expanded.split("asm volatile")[1:]
    assert len(instructions) == (1 if architecture >= 800 else {"MMA_I8": 4, "MMA_F16": 2}[macro])
    for instruction in instructions:
        code = "".join(re.findall(r'"([^"]{4,})"', instruction))
        found = re.match(r"mma\.sync\.aligned\.(\w+)\.row\.col\.(\S+) (.*);", code)
        assert found is not None, code
        types = "s32.s8.s8.s32" if macro == "MMA_I8" else "f32.f16.f16.f32"
        assert found[2] == types
        operands = re.findall(r"\((\w)\)\[(\d)\]", instruction)
        d, *factors, sums = (re.findall(r"%(\d)", g) for g in re.findall(r"{(.*?)}", found[3]))
        assert d == sums
        given = []
        for name, numbers in zip("abc", (*factors, sums), strict=True):
            assert {operands[int(n)][0] for n in numbers} == {name}
            given.append([int(operands[int(n)][1]) for n in numbers])
        values = [registers[name][:, at] for name, at in zip("abc", given, strict=True)]
        registers["c"][:, given[2]] = product(found[1], *values)
    np.testing.assert_array_equal(registers["c"], wanted(macro)[_FIRST])


# -- what devices make of it

_BODY = Source("""
KERNEL void KERNEL_NAME(PARAMETERS)
{
    MMA_SCRATCH(64)
    i32 a[4], b[2];
    ACC c[4];
    for (i32 i = 0; i < 4; i++)
        a[i] = LOAD0(LID0 * 4 + i), c[i] = LOAD2(LID0 * 4 + i);
    for (i32 i = 0; i < 2; i++)
        b[i] = LOAD1(LID0 * 2 + i);
    MMA(c, a, b);
    for (i32 i = 0; i < 4; i++)
        STORE(LID0 * 4 + i, c[i]);
}
""")


def check_fragments(target: Device) -> None:
    """One instruction of each kind, for two groups of 32 work-items."""
    for macro in WHOLE:
        arrays = fragments(macro)
        kinds = DType.INT32, DType.INT32, DType.INT32 if macro == "MMA_I8" else DType.FLOAT32
        specs = [TensorSpec(a.shape, t) for a, t in zip(arrays, kinds, strict=True)]
        node = NodeSpec(macro, specs, [specs[2]], Options({}), 1)
        defines = {"MMA": macro, "ACC": "i32" if macro == "MMA_I8" else "f32"}
        step = Kernel(_BODY, (0, 1, 2), (64,), defines, group=(64,))
        plan = Plan(target, [Item(node, [0, 1, 2], [3], Lowered([step]))], [0, 1, 2], [3])
        got = np.zeros_like(arrays[2])
        plan.run(dict(enumerate(arrays)), {3: got})
        np.testing.assert_array_equal(got, wanted(macro), macro)


def test_what_opencl_acts_out() -> None:
    check_fragments(device("opencl-intel"))


def test_on_the_stand_in_of_cuda() -> None:
    check_fragments(cuda_device("cuda-standin"))


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    check_fragments(cuda_device("cuda"))


# -- products of matrices

# how many, and a seed that gives most of the forms: groups, odd depths, large and small tiles
COUNTS = {"CONV_2D": (4, 17), "FULLY_CONNECTED": (6, 45), "BATCH_MATMUL": (8, 13)}


@cache
def cases(kind: str) -> list[tuple[NodeSpec, list[Array], Array]]:
    """Nodes of random geometry, inputs that halves hold, and what numpy makes of them."""
    count, seed = COUNTS[kind]
    rng, found = np.random.default_rng(seed), []
    registration = find_builtin(kind)
    assert registration is not None
    for _ in range(count):
        arrays, const, options = KINDS[kind](rng)
        arrays = [a.astype(np.float16).astype(np.float32) for a in arrays]
        node = made_node(kind, arrays, const, options)
        found.append((node, arrays, Prepared(registration, node, list(arrays)).run()[0]))
    return found


def check_products(target: Device, kind: str) -> set[str]:
    """Which forms there were."""
    target = copy.copy(target)
    target.capability = capability = replace(target.capability, kind="gpu", mma=True, half=True)
    registration = find_builtin(kind)
    assert registration is not None and registration.lower is not None
    items, inputs, outputs, forms = [], {}, {}, set()
    for number, (node, arrays, want) in enumerate(cases(kind)):
        keys = [100 * number + i for i in range(len(arrays))]
        lowered = registration.lower(node, capability)
        (step,) = lowered.steps
        forms |= {step.file, step.defines.get("MMA")}
        items.append(Item(node, keys, [100 * number + 50], lowered))
        given = zip(keys, arrays, node.inputs, strict=True)
        inputs.update({k: a for k, a, s in given if s is not None and s.const is None})
        outputs[100 * number + 50] = np.full(want.shape, 77, np.float32)
    Plan(target, items, list(inputs), list(outputs), half=True).run(inputs, outputs)
    for number, (node, _, want) in enumerate(cases(kind)):
        got = outputs[100 * number + 50]
        most = 1e-5 * float(abs(want).max(initial=0))
        what = f"{node.options} on {[str(s) for s in node.inputs]}"
        np.testing.assert_allclose(got, want, rtol=0, atol=most, err_msg=what)
    return forms


@pytest.mark.parametrize("kind", COUNTS)
def test_halves_as_numpy(kind: str) -> None:
    forms = check_products(cuda_device("cuda-standin"), kind)
    assert ("matmul_mma" if kind == "BATCH_MATMUL" else "MMA_F16") in forms


@pytest.mark.gpu
@pytest.mark.parametrize("kind", COUNTS)
def test_halves_on_a_gpu(kind: str) -> None:
    check_products(cuda_device("cuda"), kind)


def test_weights_beyond_halves_stay() -> None:
    """And without the wish for halves no float is rounded."""
    rng = np.random.default_rng(3)
    options = {
        "fused_activation_function": "NONE",
        "weights_format": "DEFAULT",
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
    }
    weights = rng.standard_normal((40, 40)).astype(np.float32)
    large = weights.copy()
    large[3, 4] = 7e4
    registration = find_builtin("FULLY_CONNECTED")
    assert registration is not None and registration.lower is not None
    for half, values, unit in ((True, weights, 1), (True, large, 0), (False, weights, 0)):
        x = rng.standard_normal((70, 40)).astype(np.float32)
        node = made_node("FULLY_CONNECTED", [x, values], [False, True], options)
        node = replace(node, inputs=[*node.inputs, None])
        (step,) = registration.lower(node, replace(PROFILES["sm_90"], half=half)).steps
        assert step.defines["MATRIX_UNIT"] == unit

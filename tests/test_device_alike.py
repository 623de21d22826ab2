"""Kernels that differ in numbers alone share their text."""

from __future__ import annotations

import struct

from litedelegate.delegates.gpu.alike import alike

HEAD = "KERNEL void KERNEL_NAME(GLOBAL f32* RESTRICT ptr_0)"


def of(body: str, defines: str = "") -> str:
    return f"{defines}{HEAD} {{ {body} }}\n"


def f32(value: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def test_numbers_that_differ_are_arguments() -> None:
    bodies = [
        "for (i32 i = 0; i < 7; i++) ptr_0[i * 3 + 7] = (0x1.8p+1f) + AS_F32(5u) + 2.5f;",
        "for (i32 i = 0; i < 9; i++) ptr_0[i * 3 + 9] = (0x1.0p+0f) + AS_F32(5u) + 2.5f;",
        "for (i32 i = 0; i < 9; i++) ptr_0[i * 4 + 9] = (0x1.0p+0f) + AS_F32(0xFFu) + 2.5f;",
    ]
    one, two, three = alike([of(b) for b in bodies])
    assert one.source == two.source == three.source
    # 7 stands at two places, and is one number
    assert one.types == ("i32", "i32", "f32", "u32")
    assert one.numbers == (7, 3, f32(3.0), 5)
    assert two.numbers == (9, 3, f32(1.0), 5)
    assert three.numbers == (9, 4, f32(1.0), 255)
    assert "ptr_0, const i32 number_0, const i32 number_1, const f32 number_2" in one.source
    assert "i = 0; i < number_0" in one.source
    assert "2.5f" in one.source


def test_what_compilers_need_stays() -> None:
    """Lengths of vectors, 64-bit floats, and what has another form."""
    for a, b in (
        ("VSTORE(16, VSPLAT(f32, 16, 0), ptr_0);", "VSTORE(8, VSPLAT(f32, 8, 0), ptr_0);"),
        ("ptr_0[0] = (0x1.8p+3);", "ptr_0[0] = (0x1.8p+4);"),
        ("ptr_0[0] = 1;", "ptr_0[0] = 1u;"),
        ("ptr_0[0] = 4294967295;", "ptr_0[0] = 4294967294;"),
        ("ptr_0[0] = tmp_1;", "ptr_0[0] = tmp_2;"),
    ):
        one, two = alike([of(a), of(b)])
        assert (one.source, two.source) == (of(a), of(b))
        assert one.numbers == two.numbers == ()


def test_macros() -> None:
    """Those that are a number may come from outside, where no condition, array, vector or name
    wants them; numbers of the body itself stay."""
    body = "f32 sums[ROOM]; ptr_0[N] = F(W, 3) + LAST; VLOAD(LANES, ptr_0);"
    more = "#define LAST (N % M)\n#define ROOM (TILE * 2)\n#define F(n, m) a##n\n#if PADS\n#endif\n"

    def text(**values: int) -> str:
        named = {"N": 1, "M": 2, "W": 4, "TILE": 8, "LANES": 16, "PADS": 0} | values
        return of(body, "".join(f"#define {k} {v}\n" for k, v in named.items()) + more)

    base = text()
    for name, free in {"N": True, "M": True, "TILE": False, "LANES": False, "PADS": False}.items():
        one, two = alike([base, text(**{name: 32})])
        assert (one.source == two.source) is free, name
        if free:
            assert f"#define {name} number_0" in one.source
            assert two.numbers == (32,)


def test_nothing_is_shared_by_one() -> None:
    (one, two) = alike([of("ptr_0[3] = 4;")] * 2)
    assert one == two
    assert one.source == of("ptr_0[3] = 4;")
    assert alike([]) == []


def test_numbers_of_unusual_spelling_stay() -> None:
    """Characters, octals, sizes of types, and what the type of its spelling cannot hold."""
    for a, b in (
        ("'1'", "'2'"),
        ("010", "020"),
        ("sizeof(i32[3])", "sizeof(i32[4])"),
        ("4294967296u", "4294967297u"),
        ("1.0e39f", "2.0e39f"),
        # the double nearest to the first lies between two floats: rounded twice it is another
        ("1.00000017881393432617187499f", "1.00000017881393432617187501f"),
    ):
        one, two = alike([of(f"ptr_0[0] = {a};"), of(f"ptr_0[0] = {b};")])
        assert a in one.source and b in two.source
        assert not one.numbers and not two.numbers

"""The pieces of the command line that need no model."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
from rich.console import Console

from litedelegate.cli import inputs, show
from litedelegate.cli.benchmark import node_medians
from litedelegate.cli.inputs import ImageScale
from litedelegate.cli.run import best, real_values
from litedelegate.runtime.profile import Record


def detail(
    dtype: Any, shape: tuple[int, ...] = (1, 2, 2, 1), scale: float = 0.0, zero: int = 0
) -> Any:
    return {"dtype": dtype, "shape": np.array(shape), "quantization": (scale, zero)}


PLAIN = ImageScale(None, None)


def test_an_input_name_may_hold_an_equals_sign() -> None:
    details = {"a": detail(np.float32), "a=b": detail(np.float32)}
    got = inputs.parse(["a=b=zeros", "a=ones"], details)
    assert got == {"a": "ones", "a=b": "zeros"}


def test_inputs_left_out_are_filled_when_asked() -> None:
    details = {"a": detail(np.float32), "b": detail(np.float32)}
    assert inputs.parse(["b=ones"], details, "random") == {"a": "random", "b": "ones"}


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int32, np.bool_, np.complex64])
def test_random_is_of_the_type_and_the_same_each_time(dtype: Any) -> None:
    first = inputs.load("x", "random:3", detail(dtype, (2, 5)), PLAIN)
    again = inputs.load("x", "random:3", detail(dtype, (2, 5)), PLAIN)
    assert first.dtype == dtype and first.shape == (2, 5)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) > 1


def test_unknown_dimensions_become_one() -> None:
    assert inputs.load("x", "zeros", detail(np.float32, (-1, 3)), PLAIN).shape == (1, 3)
    assert inputs.load("x", "zeros", detail(np.float32, (0, 3)), PLAIN).shape == (0, 3)


def test_text_goes_into_strings() -> None:
    got = inputs.load("x", "text:a:b", detail(np.bytes_, (2,)), PLAIN)
    assert got.tolist() == [b"a:b", b"a:b"]


@pytest.mark.parametrize("source", ["zeros", "ones", "const:1", "random"])
def test_numbers_do_not_go_into_strings(source: str) -> None:
    with pytest.raises(click.UsageError, match="text:…"):
        inputs.load("x", source, detail(np.bytes_, (2,)), PLAIN)


@pytest.mark.parametrize(
    ("text", "want"), [("1,2", (1, 2)), ("1x2", (1, 2)), ("3", (3,)), ("a=", ()), ("0, 4", (0, 4))]
)
def test_shapes(text: str, want: tuple[int, ...]) -> None:
    assert inputs.parse_shapes([text], {"a": detail(np.float32)}) == {"a": want}


PIXELS = np.array([0, 51, 128, 255], np.uint8).reshape(1, 2, 2, 1)


@pytest.mark.parametrize(
    ("dtype", "scale", "quant", "want"),
    [
        (np.float32, PLAIN, (0.0, 0), [0, 0.2, 128 / 255, 1]),
        (np.float32, ImageScale((127.5,), (127.5,)), (0.0, 0), [-1, -0.6, 0.5 / 127.5, 1]),
        (np.float32, ImageScale((1.0,), None), (0.0, 0), [-1, 50, 127, 254]),
        (np.uint8, PLAIN, (0.5, 3), [0, 51, 128, 255]),
        (np.int8, PLAIN, (0.5, 3), [-128, -77, 0, 127]),
        (np.int8, ImageScale((0.0,), (255.0,)), (1 / 255, -128), [-128, -77, 0, 127]),
        (np.int16, ImageScale((0.0,), (255.0,)), (0.1, 0), [0, 2, 5, 10]),
    ],
)
def test_pixels_follow_the_input(dtype: Any, scale: ImageScale, quant: Any, want: Any) -> None:
    got = inputs.scaled(PIXELS, "x", detail(dtype, scale=quant[0], zero=quant[1]), scale)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.reshape(-1), want, atol=1e-6)


def test_pixels_for_an_unquantised_integer_are_refused() -> None:
    with pytest.raises(click.UsageError, match="int32 without quantisation"):
        inputs.scaled(PIXELS, "x", detail(np.int32), PLAIN)


def test_best_is_stable_and_dequantised() -> None:
    parameters = {"scales": np.array([0.5], np.float32), "zero_points": np.array([2], np.int32)}
    stored = np.array([[4, 8, 8, 2]], np.int8)
    real = real_values(stored, {"quantization_parameters": parameters})
    assert best(real, list("abcd"), 3) == [(1, "b", 3.0), (2, "c", 3.0), (0, "a", 1.0)]
    assert best(real, ["too", "few"], 1) == [(1, "", 3.0)]


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (show.nbytes(999), "999 B"),
        (show.nbytes(12_345), "12.1 KB"),
        (show.nbytes(3 << 31), "6.0 GB"),
        (show.seconds(2.5), "2.50 s"),
        (show.seconds(0.0123), "12.3 ms"),
        (show.seconds(4e-7), "0.40 µs"),
        (show.shape([1, -1, 3]), "1×?×3"),
        (show.shape([]), "scalar"),
        (show.plural(1, "node"), "1 node"),
        (show.plural(6092, "node"), "6,092 nodes"),
        (show.name("a\n[b]"), r"a\n\[b]"),
        (len(show.name("x" * 300)), show.LONGEST_NAME),
        (show.listing([f"n{i}" for i in range(10)], 2), "n0, n1 … and 8 more"),
    ],
)
def test_words(got: object, want: object) -> None:
    assert got == want


def test_json_keeps_arrays_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show.print_json(
        {"a": np.array([[1, 2], [3, 4]]), "b": {"c": (1.5, "<line 0>")}, "d": np.int8(3)}
    )
    assert capsys.readouterr().out == (
        '{\n  "a": [[1, 2], [3, 4]],\n  "b": {\n    "c": [1.5, "<line 0>"]\n  },\n  "d": 3\n}\n'
    )


def test_json_is_strict_about_what_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    odd = [float("nan"), float("inf"), -float("inf")]
    value = {"a": np.float32([odd]), "b": np.float32(odd[0]), "c": odd[1], "d": np.array(odd[2])}
    show.print_json(value)
    text = capsys.readouterr().out

    def refuse(name: str) -> None:
        raise AssertionError(f"bare {name}")

    got = json.loads(text, parse_constant=refuse)
    words = ["NaN", "Infinity", "-Infinity"]
    assert got == {"a": [words], "b": words[0], "c": words[1], "d": words[2]}
    assert [str(float(w)) for w in words] == ["nan", "inf", "-inf"]


NAMES = [f"model/block_{i}/expanded_conv/depthwise/BiasAdd;model/relu6" for i in range(2)]
ROWS = [("1", NAMES[0], "[green]yes[/]"), ("22", NAMES[1], "the last of a few words")]


def lines(width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(show.table("T", (">n", "name", "why"), ROWS))
    return out.getvalue().splitlines()


def test_a_table_ends_its_lines_where_the_words_end() -> None:
    got = lines(show.UNFOLDED)
    assert got[0] == "T" and got[1].split() == ["n", "name", "why"] and got[5] == ""
    assert got[3] == f"   1   {NAMES[0]}   yes"
    assert got[4] == f"  22   {NAMES[1]}   the last of a few words"
    assert all(line == line.rstrip() for line in got)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_table_folds_at_words_and_keeps_the_ends_of_names(width: int) -> None:
    got = lines(width)
    assert max(map(len, got)) <= width
    for row, name in enumerate(NAMES):
        (shown,) = (word for word in got[3 + row].split() if "…" in word)
        head, _, tail = shown.partition("…")
        assert name.startswith(head) and name.endswith(tail) and len(tail) > len(head) > 2
    words = [w for line in got[4:] for w in line.split()]
    assert {"the", "last", "of", "a", "few", "words"} <= set(words)


def test_a_long_cell_moves_its_own_line_alone() -> None:
    out = io.StringIO()
    rows = [("x" * 500, "1"), ("y", "2")]
    Console(file=out, width=show.UNFOLDED).print(show.table("", ("a", "b"), rows))
    assert [len(line) for line in out.getvalue().splitlines()[2:4]] == [506, 66]


def test_one_slow_call_does_not_make_a_slow_node() -> None:
    calls = [(0, 10), (1, 50), (0, 900), (1, 50), (0, 10), (1, 30), (1, 30)]
    records = [Record(0, SimpleNamespace(index=i), 0, ns, ns) for i, ns in calls]  # type: ignore[arg-type]
    profile = SimpleNamespace(records=records)
    # three runs; node 1 runs twice in the last
    assert node_medians(profile, [2, 4, 7]) == {(0, 0): 10, (0, 1): 50}  # type: ignore[arg-type]

"""The text ops: SentencePiece, white space, n-grams, ragged tensors."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sentencepiece_models import decoder, encoder

from litedelegate import Interpreter, ModelBuilder
from litedelegate.kernels.types import Array

SPACE = "\u2581"


def strings(*values: str | bytes) -> Array:
    array = np.empty(len(values), object)
    array[:] = [v.encode() if isinstance(v, str) else v for v in values]
    return array


def run(
    op: str, inputs: Sequence[Any], outputs: Sequence[str], options: Any = None, constant: int = -1
) -> list[Array]:
    """One node; input number `constant` is in the model."""
    b = ModelBuilder()
    g = b.subgraph("main")
    refs, values = [], {}
    for i, x in enumerate(inputs):
        if i == constant:
            refs.append(g.constant(f"x{i}", x))
        else:
            name = "string" if x.dtype == object else x.dtype.name
            refs.append(g.input(f"x{i}", x.shape, name))
            values[f"x{i}"] = x
    made = g.custom(op, refs, [(f"y{i}", (), t) for i, t in enumerate(outputs)], options=options)
    g.outputs(*made)
    runtime = Interpreter(model_content=b.build())
    first = runtime.run(values)
    again = runtime.run(values)
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)
    return [first[f"y{i}"] for i in range(len(outputs))]


# -- SentencePiece


def tokenize(
    model: bytes,
    texts: Array,
    flags: tuple[bool, bool, bool] = (False, False, False),
    op: str = "TFText>FastSentencepieceTokenize",
    constant: int = 0,
) -> list[list[int]]:
    rest = [np.array(0, np.int32), np.array(1, np.float32), *map(np.array, flags)]
    inputs = [np.frombuffer(model, np.uint8), texts, *rest]
    codes, splits = run(op, inputs, ["int32", "int32"], constant=constant)
    return [codes[a:b].tolist() for a, b in itertools.pairwise(splits)]


LETTERS = [SPACE, "a", "b", "c", "ab", "bc", "abc", SPACE + "a", "ca", "é"]
SCORES = [0.0, 0.0, 0.0, -2.5, -3.0, -3.25, -3.5, -4.0, -4.5, -5.5, -3.75, -6.0, -2.0]
PIECES = {piece.encode(): i for i, piece in enumerate(LETTERS, 3)}


def best(text: str) -> float:
    """The greatest score of all ways to cut a text into pieces and unknown letters."""
    if not text:
        return 0.0
    ways = [-20.0 * len(text[:1].encode()) + best(text[1:])]
    for n in range(1, 4):
        code = PIECES.get(text[:n].encode())
        if code is not None and len(text) >= n:
            ways.append(SCORES[code] + best(text[n:]))
    return max(ways)


def test_the_best_way_to_cut_a_text() -> None:
    model = encoder(PIECES, SCORES)
    rng = random.Random(0)
    texts = ["".join(rng.choice("abcaé zb") for _ in range(rng.randint(1, 9))) for _ in range(60)]
    names = {i: piece for piece, i in PIECES.items()}
    for text, codes in zip(texts, tokenize(model, strings(*texts)), strict=True):
        plain = SPACE + SPACE.join(text.split(" "))
        while SPACE * 2 in plain:
            plain = plain.replace(SPACE * 2, SPACE)
        plain = plain.removesuffix(SPACE)
        # z alone is unknown; a row of it is one code
        left, score = plain.encode(), 0.0
        for code in codes:
            if code == 0:
                row = len(left) - len(left.lstrip(b"z"))
                assert row, text
                score, left = score - 20.0 * row, left[row:]
            else:
                assert left.startswith(names[code]), text
                score, left = score + SCORES[code], left[len(names[code]) :]
        assert not left, text
        assert score == pytest.approx(best(plain)), text


@pytest.mark.parametrize("op", ["TFText>FastSentencepieceTokenize", "TFSentencepieceTokenizeOp"])
@pytest.mark.parametrize("constant", [0, -1])
def test_codes_of_begin_and_end(op: str, constant: int) -> None:
    model = encoder(PIECES, SCORES, bos=7, eos=8, offset=100)
    texts = strings("abc", "", "zz")
    middle = [[103, 109], [], [103, 0]]
    for begin, end, reverse in itertools.product([False, True], repeat=3):
        want = [[7] * begin + codes + [8] * end for codes in middle]
        got = tokenize(model, texts, (begin, end, reverse), op, constant)
        assert got == ([w[::-1] for w in want] if reverse else want)
    assert tokenize(model, strings(), op=op, constant=constant) == []


def test_rules_of_normalisation() -> None:
    rules = {"①".encode(): b"a", "①é".encode(): b"bc", b"Z": b"", "\u3000".encode(): b" "}
    options = {"rules": rules, "prefix": False, "fewer_spaces": True}
    model = encoder(PIECES, SCORES, **options)  # type: ignore[arg-type]
    texts = strings("①", "①éZ", "Za\u3000\u3000 a ", b"\xe2\x91")
    assert tokenize(model, texts) == [[4], [8], [4, 10], [0]]
    plain = encoder(PIECES, SCORES, prefix=False, fewer_spaces=False, escape=False)
    assert tokenize(plain, strings("a  a")) == [[4, 0, 4]]


def test_without_a_code_for_the_unknown() -> None:
    model = encoder(PIECES, SCORES, unknown=-1)
    assert tokenize(model, strings("ab", "az", "b")) == [[3, 7], [], [3, 5]]


@pytest.mark.parametrize(
    "op", ["TFText>FastSentencepieceDetokenize", "TFSentencepieceDetokenizeOp"]
)
def test_detokenize(op: str) -> None:
    def decode(model: bytes, codes: list[int], splits: list[int]) -> list[bytes]:
        inputs = [np.frombuffer(model, np.uint8)]
        inputs += [np.array(v, np.int32) for v in (codes, splits)]
        text: list[bytes] = run(op, inputs, ["string"], constant=0)[0].tolist()
        return text

    pieces = [b" \xe2\x81\x87 ", b"", b" a", b"b", b" ", "é".encode()]
    codes, splits = [12, 13, 12, 15, 12, 14, 10], [0, 3, 3, 4, 7]
    model = decoder(pieces, offset=10)
    want = ["ab a", "", "é", "a  \xe2\x81\x87 ".encode("latin-1")]
    assert decode(model, codes, splits) == strings(*want).tolist()
    kept = decoder(pieces, offset=10, no_prefix=False)
    assert decode(kept, codes, splits)[0] == b" ab a"
    for wrong in (9, 16):
        with pytest.raises(
            RuntimeError, match=f"the code {wrong} is unknown; there are 6, from 10"
        ):
            decode(model, [wrong], [0, 1])
    for ends in ([0, 2, 1], [0, 1], [1, 2], []):
        with pytest.raises(RuntimeError, match="taken: from 0 to 2, never less again"):
            decode(model, [12, 13], ends)


def test_models_that_are_none() -> None:
    good = encoder(PIECES, SCORES)
    with pytest.raises(RuntimeError, match="the encoder has version 1; taken: 0"):
        tokenize(encoder(PIECES, SCORES, version=1), strings("a"))
    for cut in (0, 3, 40, len(good) // 2):
        with pytest.raises(RuntimeError, match="no SentencePiece encoder"):
            tokenize(good[len(good) - cut :] if cut == 40 else good[:cut], strings("a"))


def test_against_the_sentencepiece_library() -> None:
    library = pytest.importorskip("sentencepiece")
    rng = random.Random(3)
    words = [
        "".join(rng.choice("abcdeéß日本") for _ in range(rng.randint(1, 6))) for _ in range(90)
    ]
    corpus = [" ".join(rng.choice(words) for _ in range(8)) for _ in range(300)]
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=written,
        vocab_size=60,
        model_type="unigram",
        normalization_rule_name="identity",
        minloglevel=2,
    )
    model = library.SentencePieceProcessor(model_proto=written.getvalue())
    codes = range(model.get_piece_size())
    scores = [model.get_score(i) for i in codes]
    known = [i for i in codes if not (model.is_unknown(i) or model.is_control(i))]
    pieces = {model.id_to_piece(i).encode(): i for i in known}
    penalty = min(scores[i] for i in known) - 10
    ours = encoder(pieces, scores, bos=model.bos_id(), eos=model.eos_id(), penalty=penalty)
    texts = [*corpus[:40], "", "  abc   de ", "xyz abc", "日本é", "qq"]
    want = model.encode(texts, add_bos=True, add_eos=True)
    got = tokenize(ours, strings(*texts), (True, True, False))
    assert got == want
    texts_of = [
        model.id_to_piece(i).replace(SPACE, " ").encode() if i in known else b"" for i in codes
    ]
    flat = [c for w in want[:40] for c in w]
    splits = np.cumsum([0] + [len(w) for w in want[:40]])
    inputs = [np.frombuffer(decoder(texts_of), np.uint8), np.array(flat, np.int32)]
    back = run("TFText>FastSentencepieceDetokenize", [*inputs, splits.astype(np.int32)], ["string"])
    assert [b.strip() for b in back[0]] == [t.encode() for t in corpus[:40]]


# -- white space

UNICODE_SPACE = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029]
UNICODE_SPACE += [0x202F, 0x205F, 0x3000]


def space_table() -> Array:
    table = bytearray(0x3000 // 8 + 1)
    for point in UNICODE_SPACE:
        table[point >> 3] |= 1 << (point & 7)
    array = np.empty((), object)
    array[()] = bytes(table)
    return array


def test_whitespace_with_offsets() -> None:
    texts = strings("a bb ccc", "", " \t\n", "\u00e9 x\u2003 y", "a\u3000b", b"a\xff \xe3\x80 b")
    words, splits, begins, ends = run(
        "TFText>WhitespaceTokenizeWithOffsetsV2",
        [texts, space_table()],
        ["string", "int64", "int32", "int32"],
    )
    rows = [
        list(zip(*(v[a:b].tolist() for v in (words, begins, ends)), strict=True))
        for a, b in itertools.pairwise(splits)
    ]
    # the last-but-one and the one before it: numbers of TensorFlow Text
    assert rows == [
        [(b"a", 0, 1), (b"bb", 2, 4), (b"ccc", 5, 8)],
        [],
        [],
        [("é".encode(), 0, 2), (b"x\xe2\x80", 3, 6), (b"y", 8, 9)],
        [(b"a\xe3\x80", 0, 3), (b"b", 4, 5)],
        [(b"a\xff", 0, 2), (b"\xe3\x80", 3, 5), (b"b", 6, 7)],
    ]


@pytest.mark.parametrize("shape", [(1,), (6,), (2, 3), (3, 1, 2), (0,)])
def test_whitespace_tokenizer(shape: tuple[int, ...]) -> None:
    texts = strings("this is  a test", "\u00a0extra   spaces\u3000here ", "", " ", "é", "a b")
    texts = texts[: int(np.prod(shape))].reshape(shape)
    rows = [text.decode().split() for text in texts.reshape(-1)]
    op = "tftext:WhitespaceTokenizer"
    padded = run(op, [texts], ["string"])[0]
    most = max(map(len, rows), default=0)
    assert padded.shape == (*shape, most)
    want = [[w.encode() for w in row] + [b""] * (most - len(row)) for row in rows]
    assert padded.reshape(-1, most).tolist() == want if most else True
    values, *splits = run(op, [texts], ["string", *["int64"] * len(shape)])
    assert values.tolist() == [w.encode() for row in rows for w in row]
    for i, outer in enumerate(splits[:-1], 1):
        count = int(np.prod(shape[:i]))
        assert outer.tolist() == [shape[i] * j for j in range(count + 1)]
    assert splits[-1].tolist() == [0, *itertools.accumulate(len(row) for row in rows)]


def test_whitespace_tokenizer_stops_where_no_text_is() -> None:
    texts = strings(b"a b\xff c", "d\ufffd e", b"\xe3\x80")
    values, splits = run("tftext:WhitespaceTokenizer", [texts], ["string", "int64"])
    assert (values.tolist(), splits.tolist()) == ([b"a", b"b", b"d"], [0, 2, 3, 3])


# -- n-grams


@pytest.mark.parametrize("op", ["TFText>NgramsStringJoin", "tftext:Ngrams"])
@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_ngrams(op: str, width: int) -> None:
    options = {"width": width, "axis": -1, "string_separator": "|"}
    words = strings(*"abcdefgh")

    def grams(row: list[bytes]) -> list[bytes]:
        return [b"|".join(row[i : i + width]) for i in range(len(row) - width + 1)]

    dense = run(op, [words.reshape(2, 2, 2)], ["string"], options)[0]
    assert dense.shape == (2, 2, max(0, 3 - width))
    rows = [words[i : i + 2].tolist() for i in range(0, 8, 2)]
    assert dense.reshape(-1).tolist() == [g for row in rows for g in grams(row)]
    splits, outer = np.array([0, 3, 3, 8], np.int64), np.array([0, 1, 3], np.int64)
    made = run(op, [words, outer, splits], ["string", "int64", "int64"], options)
    rows = [words[a:b].tolist() for a, b in itertools.pairwise(splits)]
    assert made[0].tolist() == [g for row in rows for g in grams(row)]
    assert made[1].tolist() == outer.tolist()
    assert made[2].tolist() == [0, *itertools.accumulate(len(grams(row)) for row in rows)]


def test_refusals() -> None:
    words = strings(*"ab")
    with pytest.raises(RuntimeError, match="axis is 0 and width 1; taken: -1 and from 1"):
        run("tftext:Ngrams", [words], ["string"], {"width": 1, "axis": 0, "string_separator": ""})
    with pytest.raises(RuntimeError, match="reduction_type is 'MEAN'"):
        options = {"width": 1, "axis": -1, "string_separator": "", "reduction_type": "MEAN"}
        run("tftext:Ngrams", [words], ["string"], options)
    with pytest.raises(RuntimeError, match="takes string there"):
        run("tftext:WhitespaceTokenizer", [np.zeros(2, np.int32)], ["string"])
    with pytest.raises(RuntimeError, match=r"taken: \[texts\]"):
        run(
            "TFText>WhitespaceTokenizeWithOffsetsV2",
            [words.reshape(1, 2), space_table()],
            ["string", "int64", "int32", "int32"],
        )


# -- ragged tensors

ROWS = [[1, 2, 3], [], [4], [5, 6, 7, 8]]
LENGTHS = [len(row) for row in ROWS]


def dense(rows: list[list[int]], height: int, width: int, default: int) -> list[list[int]]:
    rows = (rows + [[]] * height)[:height]
    return [(row + [default] * width)[:width] for row in rows]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.uint8])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [None, (-1, -1), (3, 2), (6, 7), (-1, 3), (2, -1)])
@pytest.mark.parametrize("by", ["ROW_SPLITS", "VALUE_ROWIDS"])
def test_ragged_to_dense(by: str, shape: Any, index: Any, dtype: Any) -> None:
    wanted = np.array(-1 if shape is None else shape, index)
    values, default = np.arange(1, 9).astype(dtype), np.array(77, dtype)
    if by == "ROW_SPLITS":
        parts = [np.array([0, *itertools.accumulate(LENGTHS)], index)]
        kinds = ["ROW_SPLITS"]
    else:
        parts = [np.array(4, index), np.repeat(np.arange(4), LENGTHS).astype(index)]
        kinds = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
    height, width = shape or (-1, -1)
    got = run(
        "RaggedTensorToTensor",
        [wanted, values, default, *parts],
        [np.dtype(dtype).name],
        {"row_partition_types": kinds},
    )[0]
    height, width = 4 if height < 0 else height, 4 if width < 0 else width
    assert got.tolist() == dense(ROWS, height, width, 77)


@pytest.mark.parametrize("shape", [None, (-1, -1, -1), (4, 2, 2), (2, 5, 3), (2, 1, 1)])
def test_ragged_in_two_dimensions(shape: Any) -> None:
    blocks = [[[1], [2, 3]], [], [[4, 5, 6], [], [7]]]
    inner = [row for block in blocks for row in block]
    splits = np.array([0, *itertools.accumulate(map(len, inner))], np.int64)
    members = np.repeat(np.arange(3), [len(b) for b in blocks])
    height, width, depth = (
        f if s < 0 else s for s, f in zip(shape or (-1,) * 3, (3, 3, 3), strict=True)
    )
    got = run(
        "RaggedTensorToTensor",
        [
            np.array(-1 if shape is None else shape, np.int32),
            np.arange(1, 8, dtype=np.int32),
            np.array(0, np.int32),
            np.array(3, np.int64),
            members.astype(np.int64),
            splits,
        ],
        ["int32"],
        {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"]},
    )[0]
    rows = (blocks + [[]] * height)[:height]
    assert got.tolist() == [dense(block, width, depth, 0) for block in rows]


def test_ragged_rows_of_vectors_and_strings() -> None:
    splits = np.array([0, 2, 3], np.int32)
    options = {"row_partition_types": ["ROW_SPLITS"]}
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    shape, default = np.array(-1, np.int32), np.array([8, 9], np.float32)
    got = run("RaggedTensorToTensor", [shape, vectors, default, splits], ["float32"], options)[0]
    assert got.tolist() == [[[0, 1], [2, 3]], [[4, 5], [8, 9]]]
    pad = np.empty((), object)
    pad[()] = b"-"
    texts = [shape, strings(*"abc"), pad, splits]
    assert run("RaggedTensorToTensor", texts, ["string"], options)[0].tolist() == [
        [b"a", b"b"],
        [b"c", b"-"],
    ]
    # as in the reference, rows that are all empty have room for one value
    empty = [shape, strings(), pad, np.array([0, 0, 0], np.int32)]
    assert run("RaggedTensorToTensor", empty, ["string"], options)[0].tolist() == [[b"-"], [b"-"]]


@pytest.mark.parametrize(
    ("shape", "parts", "kinds", "text"),
    [
        (-1, [[0, 2]], ["ROW_SPLITS"], "the partitions are of 2 values; there are 3"),
        (-1, [[0, 2, 1, 3]], ["ROW_SPLITS"], "never less again"),
        (-1, [2, [0, 2, 2]], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"], "rows from 0 to 1, in order"),
        ([2], [[0, 1, 3]], ["ROW_SPLITS"], "the shape, is \\[2\\]; taken: 2 dimensions"),
        (-1, [[0, 1, 3]], ["VALUE_ROWIDS"], "row_partition_types is \\['VALUE_ROWIDS'\\]"),
        (-1, [[0, 1, 3]], ["ROW_SPLITS"] * 2, "has 5 inputs and 1 output"),
    ],
)
def test_ragged_refusals(shape: Any, parts: list[Any], kinds: list[str], text: str) -> None:
    inputs = [np.array(shape, np.int32), np.arange(3, dtype=np.int32), np.array(0, np.int32)]
    inputs += [np.array(p, np.int32) for p in parts]
    with pytest.raises(RuntimeError, match=text):
        run("RaggedTensorToTensor", inputs, ["int32"], {"row_partition_types": kinds})


@pytest.mark.parametrize(
    ("starts", "limits", "deltas", "dtype"),
    [
        ([0, 5, 8, 5], [8, 7, 8, 1], [2, 1, 1, -1], np.int32),
        ([0, 5, 8, 5], 9, 3, np.int64),
        (1, 4, 1, np.int32),
        ([0.0, 2.0, 3.0], [0.5, 0.0, 2.0], [0.1, -0.7, 1.0], np.float32),
    ],
)
def test_ragged_range(starts: Any, limits: Any, deltas: Any, dtype: Any) -> None:
    inputs = [np.array(v, dtype) for v in (starts, limits, deltas)]
    splits, values = run("RaggedRange", inputs, ["int64", np.dtype(dtype).name])
    rows = []
    for a, b, step in zip(
        *(v.tolist() for v in np.broadcast_arrays(*map(np.atleast_1d, inputs))), strict=True
    ):
        row = []
        while (a < b) if step > 0 else (a > b):
            row.append(a)
            a = (dtype(a) + dtype(step)).item()
        rows.append(row)
    assert splits.tolist() == [0, *itertools.accumulate(map(len, rows))]
    np.testing.assert_allclose(values, [v for row in rows for v in row], rtol=1e-6)


@pytest.mark.parametrize(
    ("deltas", "text"), [([1, 0], "the delta of row 1 is 0"), ([1, 1, 1], "as many as the others")]
)
def test_ragged_range_refusals(deltas: list[int], text: str) -> None:
    inputs = [np.array(v, np.int32) for v in ([0, 1], 5, deltas)]
    with pytest.raises(RuntimeError, match=text):
        run("RaggedRange", inputs, ["int32", "int32"])

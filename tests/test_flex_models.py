"""Models from the field with Flex operators."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litedelegate import Interpreter

pytest.importorskip("tensorflow", reason="TensorFlow is not installed: pip install '.[tensorflow]'")


def test_planestrike(models: Path) -> None:
    """Its only Flex op draws an action by chance from the logits before it."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    board = rng.integers(-1, 2, (1, 8, 8)).astype(np.float32)
    inputs = {"0/discount": np.ones(1, np.float32), "0/observation": board,
              "0/reward": np.ones(1, np.float32), "0/step_type": np.ones(1, np.int32)}  # fmt: skip
    path = models / "planestrike_flex.tflite"
    with Interpreter(path) as plain:
        node = next(n for n in plain._graph.subgraphs[0].nodes if n.op == "FlexMultinomial")
        logits = node.inputs[0]
        assert logits is not None
        name = logits.name
    with Interpreter(path, keep=[name]) as interpreter:
        assert "flex" in interpreter.delegate_coverage().totals.delegated
        drawn = [int(interpreter.run(inputs)["action"][0]) for _ in range(2000)]
        interpreter.invoke()
        value = interpreter.get_tensor(logits.index)
    other = tf.raw_ops.Multinomial(logits=value, num_samples=2000).numpy()[0]
    ours, theirs = (np.bincount(d, minlength=64) / 2000 for d in (drawn, other))
    chances = tf.nn.softmax(value).numpy()[0]
    assert np.abs(ours - chances).sum() < 1.5 * np.abs(theirs - chances).sum() + 0.05


def whitespace(values: Any, splits: Any, options: Any) -> Any:
    """WhitespaceTokenizeWithOffsets of TensorFlow Text: characters, and where each text ends."""
    words: list[Any] = []
    starts: list[int] = []
    ends: list[int] = []
    outer = [0]
    for a, b in pairwise(splits):
        at = None
        for i in range(a, b + 1):
            blank = i == b or chr(values[i]).isspace()
            if at is None and not blank:
                at = i
            elif at is not None and blank:
                words.append(values[at:i])
                starts.append(at - a)
                ends.append(i - a)
                at = None
        outer.append(len(words))
    inner = np.cumsum([0, *map(len, words)])
    flat = np.concatenate(words) if words else np.empty(0, np.int32)
    as_int64 = [np.asarray(v, np.int64) for v in (inner, starts, ends, outer)]
    return flat.astype(np.int32), *as_int64


@pytest.mark.parametrize("provider", ["tensorflow_text", "python"])
def test_whitespace_tokenizer(models: Path, provider: str) -> None:
    if provider == "tensorflow_text":
        pytest.importorskip("tensorflow_text", reason="TensorFlow Text is not installed")
        custom = None
    else:
        custom = {"FlexWhitespaceTokenizeWithOffsets": whitespace}
    path = models / "whitespace_tokenizer_flex.tflite"
    with Interpreter(path, custom_ops=custom) as interpreter:
        for text in ("hello world foo", "a", "  x  yy z ", "\u00fcml\u00e4ut \u65e5\u672c ok"):
            found = interpreter.run({"input": np.array([text.encode()], object)})
            want = [w.encode() for w in text.split()]
            assert found["Identity"].tolist() == want
            assert found["Identity_1"].tolist() == [0, len(want)]
        partitions = interpreter.delegate_coverage().partitions
    assert {p.delegate for p in partitions} == {"flex"}
    assert sum(len(p.nodes) for p in partitions) == (21 if custom is None else 20)

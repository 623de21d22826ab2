"""SKIP_GRAM: n-grams of the words of a sentence, that may leave out words in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .api import Binding, NodeSpec, Run, Shape, require, take
from .types import DType

_SPACE = b" \t\n\v\f\r"


def _words(sentence: bytes) -> list[bytes]:
    words, start = [], 0
    for i in range(1, len(sentence)):
        if sentence[i] in _SPACE:
            if i > start and sentence[start] not in _SPACE:
                words.append(sentence[start:i])
            start = i + 1
    if len(sentence) > start:
        words.append(sentence[start:])
    return words


def _grams(words: list[bytes], options: Any) -> Iterator[bytes]:
    """In the order of their first word, longer ones before what they begin with."""
    size, skip = options.ngram_size, options.max_skip_size

    def extend(gram: list[int]) -> Iterator[list[int]]:
        if len(gram) < size:
            last = gram[-1]
            for following in range(last + 1, min(last + skip + 2, len(words))):
                yield from extend([*gram, following])
        if len(gram) == size or options.include_all_ngrams:
            yield gram

    if size < 1 or len(words) < size:
        return
    for first in range(len(words)):
        for gram in extend([first]):
            yield b" ".join(words[i] for i in gram)


def infer(node: NodeSpec) -> list[Shape | None]:
    sentence = node.input(0)
    take(node, "input 0", sentence, DType.STRING)
    take(node, "output", node.outputs[0], DType.STRING)
    require(sentence.size >= 1, f"input 0 is {sentence}; taken: a sentence")
    if sentence.const is None:
        return [None]
    words = _words(sentence.const.reshape(-1)[0])
    return [(sum(1 for _ in _grams(words, node.options)),)]


def bind(b: Binding) -> Run:
    def run() -> None:
        words = _words(b.xi(0).reshape(-1)[0])
        b.y[0][...] = list(_grams(words, b.options))

    return run

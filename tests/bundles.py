"""Bundles for tests: keys, a small one, and forgeries that a trusted signer signs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bundle_extra import zstandard as zstandard

from litedelegate import ModelBuilder, custom_op
from litedelegate.customops.bundle import Bundle, Key
from litedelegate.customops.bundle_crypto import PartCipher, unwrap
from litedelegate.customops.bundle_format import Manifest, Part, read_envelope
from litedelegate.customops.bundle_pack import seal

QUICK = 1 << 10  # of scrypt: the least that a bundle may have
SECRET = b"a marker that stands in the model and must stay in memory"
X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)


class Keys(NamedTuple):
    signer: Key
    reader: Key
    secret: Key
    words: Key

    @classmethod
    def make(cls) -> Keys:
        return cls(
            Key.generate("signer"),
            Key.generate("recipient"),
            Key.generate("secret"),
            Key.passphrase("correct horse", scrypt_n=QUICK),
        )


@custom_op("Half", shape="same")
def half(x: Any) -> Any:
    return x / np.float32(2)


@custom_op("FlexAtan", shape="same")
def halves(x: Any, options: Any) -> Any:
    """Whatever the options say."""
    return x / np.float32(2)


not_an_op = print


def model(op: str = "Half", zeros: int = 0, noise: int = 0) -> bytes:
    """y = op(x) on five floats, with as many bytes of constants."""
    builder = ModelBuilder(description=SECRET.decode())
    graph = builder.subgraph("main")
    x = graph.input("x", (5,))
    if zeros or noise:
        content = bytes(zeros) + np.random.default_rng(0).bytes(noise)
        graph.constant("c", np.frombuffer(content, np.uint8))
    y = graph.custom(op, [x], ("y", (5,), "float32"))
    graph.outputs(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    return builder.build()


def make(path: Path, keys: Keys, **more: Any) -> Manifest:
    """A bundle of one model and one op in Python for all the keys."""
    given: dict[str, Any] = {
        "name": "small",
        "signer": keys.signer,
        "readers": [keys.reader.public(), keys.secret, keys.words],
        "models": {"main": model()},
        "python_ops": {"Half": "bundles:half"},
        "release": 5,
    }
    return Bundle.create(path, **{**given, **more})


def forge(
    data: bytes,
    keys: Keys,
    change: Callable[[Manifest], Manifest] = lambda m: m,
    stored: Callable[[bytes], bytes] = lambda b: b,
) -> bytes:
    """A bundle with another manifest or other stored parts, digests and signature made right: what
    only a trusted signer could make.
    """
    envelope = read_envelope(data)
    manifest = envelope.manifest()
    pieces = [stored(bytes(piece)) for _, piece in envelope.stored(manifest)]
    parts = tuple(
        replace(part, sha256=hashlib.sha256(piece).hexdigest())
        for part, piece in zip(manifest.parts, pieces, strict=True)
    )
    return b"".join(seal(change(replace(manifest, parts=parts)), pieces, keys.signer))


def with_content(data: bytes, keys: Keys, *packed: bytes, **fields: Any) -> bytes:
    """A bundle whose only part unpacks from these chunks, properly encrypted."""
    envelope = read_envelope(data)
    manifest = envelope.manifest()
    part: Part = manifest.parts[0]
    key = unwrap(manifest.keys, keys.secret)
    cipher = PartCipher(manifest.cipher, key, bytes.fromhex(part.salt), part.identity)
    stored = b"".join(cipher.encrypt(packed))
    part = replace(
        part,
        packed=sum(map(len, packed)),
        stored=len(stored),
        sha256=hashlib.sha256(stored).hexdigest(),
        **fields,
    )
    return b"".join(seal(replace(manifest, parts=(part,)), [stored], keys.signer))

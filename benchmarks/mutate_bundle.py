"""Mutation test of the bundle reader: damages bundles at random and looks for anything but one kind
of exception.

    python benchmarks/mutate_bundle.py --count 50000

A third of the cases damage the file; the others are forged by a trusted signer, so that what lies
behind the signature is tried too: damaged manifests, and damaged parts with right digests. Each
case must open to the models that were packed, or raise BundleError; within 5 s and 256 MiB; without
importing the op's module, opening a file, starting a process or running code. Keys and nonces are
new in each run, the damage of case i of a seed is the same: `--only i` repeats it.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from mutate import TooLong, limits

from litedelegate import ModelBuilder
from litedelegate.customops.bundle import Bundle, BundleError, Key
from litedelegate.customops.bundle_crypto import sign
from litedelegate.customops.bundle_format import SIGNED, Envelope, preamble, read_envelope

# what an audit hook hears where something is executed or leaves memory
FORBIDDEN = ("exec", "compile", "import", "open", "subprocess.Popen", "os.", "socket.", "ctypes.")
VALUES: list[Any] = [
    *(0, -1, 1, 2, 255, 4096, 1 << 20, 1 << 31, 1 << 53, 1 << 64, 10**30, 1.5),
    *("", "a", "none", "zstd", "secret", "\x00", "0" * 64, "../../x", "os:system", "é" * 300),
    *(True, None, [], {}, [[]], [0] * 100, {"a": 1}),
]


class Victim:
    """A bundle and its keys."""

    def __init__(self, cipher: str = "aes-256-gcm") -> None:
        self.signer, self.reader = Key.generate("signer"), Key.generate("recipient")
        self.secret = Key.generate("secret")
        self.contents = {"plain": _model(9000, False), "packed": _model(9000, True)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "b.ldb"
            Bundle.create(
                path,
                name="victim",
                signer=self.signer,
                readers=[self.reader.public(), self.secret],
                models=self.contents,
                python_ops={"Op": "executed_by_a_bundle:op"},
                cipher=cipher,
                chunk=4096,
            )
            self.data = path.read_bytes()
        self.manifest = json.loads(read_envelope(self.data).manifest_bytes)

    def case(self, rng: np.random.Generator) -> bytes:
        kind = int(rng.integers(3))
        if kind == 0:
            return _damage(self.data, rng)
        envelope = read_envelope(self.data)
        stored = self.data[envelope.parts_start :]
        if kind == 1:
            text = envelope.manifest_bytes
            if rng.random() < 0.3:
                text = _damage(text, rng)
            else:
                text = _canonical(_vary(self.manifest, rng))
        else:
            text, stored = self._other_parts(envelope, rng)
        public = bytes(self.signer.public().material)
        head = preamble(text, 120 + len(text) + len(stored), public, bytes(64))
        signature = sign(Envelope(memoryview(head), public, b"", text).signed, self.signer)
        return head[:SIGNED] + signature + text + stored

    def _other_parts(self, envelope: Envelope, rng: np.random.Generator) -> tuple[bytes, bytes]:
        manifest = json.loads(envelope.manifest_bytes)
        pieces = [bytes(piece) for _, piece in envelope.stored(envelope.manifest())]
        i = int(rng.integers(len(pieces)))
        size = len(pieces[i])
        pieces[i] = _damage(pieces[i], rng)[:size].ljust(size, b"\0")
        for part, piece in zip(manifest["parts"], pieces, strict=True):
            part["sha256"] = hashlib.sha256(piece).hexdigest()
        return _canonical(manifest), b"".join(pieces)

    def try_case(self, data: bytes, key: Key) -> str:
        """The name of an outcome. What should not be is raised."""
        try:
            with Bundle.open(data, key=key, trusted=[self.signer.public()]) as bundle:
                for name in bundle.models:
                    if bytes(bundle.model(name)) not in self.contents.values():
                        raise AssertionError(f"it opened, and {name!r} is not what was packed")
        except BundleError as error:
            return type(error).__name__
        return "opened"


class Watch:
    """Hears what Python does while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.heard: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event.startswith(FORBIDDEN):
            self.heard.append(f"{event} {arguments!r:.100}")


def _model(size: int, zeros: bool) -> bytes:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (5,))
    content = bytes(size) if zeros else np.random.default_rng(0).bytes(size)
    graph.constant("c", np.frombuffer(content, np.uint8))
    graph.outputs(graph.custom("Op", [x], ("y", (5,), "float32")))
    return builder.build()


def _canonical(values: Any) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _damage(data: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.choice((1, 1, 2, 4)))):
        at, size = int(rng.integers(len(out))), int(rng.integers(1, 200))
        kind = int(rng.integers(7))
        if kind <= 1:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            out[at] = int(rng.integers(256))
        elif kind == 3:
            out[at : at + 4] = int(rng.choice((0, 1, 1 << 20, 1 << 31, (1 << 32) - 1))).to_bytes(
                4, "little"
            )
        elif kind == 4:
            source = int(rng.integers(len(out)))
            out[at : at + size] = out[source : source + size]
        elif kind == 5:
            del out[at : at + size]
        else:
            out[at:at] = rng.bytes(size)
        if not out:
            break
    if rng.random() < 0.05:
        del out[int(rng.integers(len(out) + 1)) :]
    return bytes(out)


def _vary(values: Any, rng: np.random.Generator) -> Any:
    """A copy with one value replaced, left out, repeated or added."""
    values = json.loads(json.dumps(values))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(values)
    node, key = places[int(rng.integers(len(places)))]
    other, theirs = places[int(rng.integers(len(places)))]
    kind = int(rng.integers(6))
    value = VALUES[int(rng.integers(len(VALUES)))]
    if kind <= 1:
        node[key] = value
    elif kind == 2:
        node[key] = json.loads(json.dumps(other[theirs]))
    elif kind == 3:
        del node[key]
    elif kind == 4 and type(node[key]) is int:
        node[key] += int(rng.integers(-16, 17))
    elif isinstance(node, list):
        node.append(value)
    else:
        node["extra" if kind == 5 else str(value)] = value
    return values


def run(count: int, seed: int = 0, only: int | None = None) -> tuple[dict[str, int], list[str]]:
    """Outcomes, and faults."""
    victims = [Victim("aes-256-gcm"), Victim("chacha20-poly1305")]
    for victim in victims:  # what is imported once is no event of a case
        for key in (victim.reader, victim.secret):
            if victim.try_case(victim.data, key) != "opened":
                return {}, ["the undamaged bundle does not open"]
    outcomes: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    watch = Watch()
    with limits(5.0, 256 << 20) as clock:
        for i in range(count) if only is None else [only]:
            rng = np.random.default_rng((seed, i))
            victim = victims[i % 2]
            data = victim.case(rng)
            clock(True)
            watch.on = True
            try:
                outcome = victim.try_case(data, victim.reader if i % 4 < 2 else victim.secret)
            except (Exception, TooLong) as error:  # all of them are what this looks for
                outcome = f"FAULT {type(error).__name__}"
                faults.append(f"case {i}: {error!r}")
            watch.on = False
            clock(False)
            faults += [f"case {i}: {event}" for event in watch.heard]
            watch.heard.clear()
            outcomes[outcome] += 1
    if "executed_by_a_bundle" in sys.modules:
        faults.append("the op's module was imported")
    return dict(outcomes), faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat this case alone")
    args = parser.parse_args()
    began = time.perf_counter()
    outcomes, faults = run(args.count, args.seed, args.only)
    print(f"{sum(outcomes.values())} cases in {time.perf_counter() - began:.0f} s")
    for outcome, number in sorted(outcomes.items(), key=lambda o: -o[1]):
        print(f"  {number:8} {outcome}")
    print("\n".join(faults[:20]) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""What opening a bundle costs, against reading the file and hashing it once.

    python benchmarks/bundle.py
    python benchmarks/bundle.py --megabytes 200 --json

The bundle holds one model: of random bytes and of float32 weights (normal), which hardly pack and
are stored as they are; of int8 weights (normal, deviation 20), which pack to 0.8; and of float32
weights of 16 values, which pack to a fifth: there most of the time goes into writing what is five
times the file. The file has about the asked size in each case. Both sides take turns; the ratio is
the median of those within a turn. `hash` is `Path.read_bytes` and SHA-256
of that; `open` reads into memory that numpy gets in large pages, so that it may even be faster.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from litedelegate import ModelBuilder
from litedelegate.customops.bundle import Bundle, Key

# and how much larger than the file the model is
CONTENTS = {"random": 1.0, "float32": 1.0, "int8": 1.25, "16 values in float32": 5.15}


def model(content: str, size: int) -> bytes:
    """A model with constants of about `size` bytes."""
    rng = np.random.default_rng(0)
    weights: np.ndarray[Any, Any]
    if content == "int8":
        weights = rng.normal(0, 20, size).clip(-127, 127).astype(np.int8)
    elif content == "random":
        weights = rng.integers(0, 256, size, np.uint8)
    else:
        values = rng.standard_normal(size // 4).astype(np.float32)
        weights = values if content == "float32" else np.round(values.clip(-2, 2) * 4) / 4
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    x = graph.input("x", (1,))
    graph.constant("weights", weights)
    graph.outputs(graph.op("ABS", [x], ("y", (1,), "float32")))
    return builder.build()


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(content: str, cipher: str, size: int, turns: int, folder: Path) -> dict[str, Any]:
    signer, reader = Key.generate("signer"), Key.generate("recipient")
    path = folder / "b.ldb"
    data = model(content, int(size * CONTENTS[content]))

    def create() -> None:
        Bundle.create(
            path,
            name="b",
            signer=signer,
            readers=[reader.public()],
            models={"main": data},
            cipher=cipher,
        )

    def read_and_hash() -> None:
        hashlib.sha256(path.read_bytes()).hexdigest()

    def open_bundle() -> None:
        Bundle.open(path, key=reader, trusted=[signer.public()])

    created = seconds(create)
    pairs = [(seconds(read_and_hash), seconds(open_bundle)) for _ in range(turns + 1)][1:]
    return {
        "content": content,
        "cipher": cipher,
        "model_bytes": len(data),
        "file_bytes": path.stat().st_size,
        "create_seconds": created,
        "hash_seconds": statistics.median(a for a, _ in pairs),
        "open_seconds": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(b / a for a, b in pairs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=50.0, help="size of the file")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for content in CONTENTS:
            for cipher in ("aes-256-gcm", "chacha20-poly1305"):
                size = int(args.megabytes * 1e6)
                rows.append(measure(content, cipher, size, args.turns, Path(folder)))
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'content':20} {'cipher':18} {'model':>9} {'file':>9} {'hash':>9} {'open':>9}  ratio")
    for row in rows:
        print(
            f"{row['content']:20} {row['cipher']:18} {row['model_bytes'] / 1e6:6.1f} MB "
            f"{row['file_bytes'] / 1e6:6.1f} MB {row['hash_seconds'] * 1e3:6.1f} ms "
            f"{row['open_seconds'] * 1e3:6.1f} ms {row['ratio']:6.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Mutation test of the verifier: damages models at random and looks for crashes, hangs and huge
allocations.

    python benchmarks/mutate.py model.tflite [...] --count 100000
    python benchmarks/mutate.py model.tflite --count 2000 --run   # builds and invokes what loads,
    too

Each damaged model must load, and then give up everything it holds, or raise InvalidModelError.
Nothing may take longer than 5 s or more than 1 GiB above what the script itself takes. Case i of a
seed is always the same: `--only i` repeats it.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from litedelegate.runtime.flexbuffer import FlexBufferError
from litedelegate.runtime.model import InvalidModelError, Model

INTERESTING = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0xFFFF, 1 << 31, (1 << 31) - 1, 0xFFFFFFFE, 0xFFFFFFFF)


class TooLong(Exception):
    """A case passed its time."""


def touch(model: Model) -> int:
    """Reads everything that a model holds; the number of tensors and operators."""
    count = 0
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            count += 1
            _ = tensor.name, tensor.quantization, tensor.quantization_parameters, tensor.sparsity
            _ = tensor.variant_tensors, model.constant(tensor)
        for operator in graph.operators:
            count += 1
            _ = operator.op, operator.version, operator.options, len(operator.intermediates)
            with suppress(FlexBufferError):  # the options of a custom op are its own
                operator.custom_options.flexbuffer()
    _ = model.signatures, model.metadata, model.control_edges, model.min_runtime_version
    for index in model.buffers:
        model.buffer(index)
    return count


def run(data: bytes) -> None:
    """Builds an interpreter, allocates and invokes."""
    from litedelegate import Interpreter

    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.invoke()


def structure(data: bytes) -> np.ndarray[Any, Any]:
    """The bytes of a model that are no constants."""
    inside = np.ones(len(data), bool)
    for start, length in Model.from_buffer(data).buffer_places:
        inside[start : start + length] = False
    return np.flatnonzero(inside)


def mutate(data: bytes, places: np.ndarray[Any, Any], rng: np.random.Generator) -> bytes:
    """A damaged copy; mostly outside of the constants."""
    out = bytearray(data)
    for _ in range(int(rng.choice((1, 1, 1, 2, 4)))):
        at = int(rng.integers(len(out))) if rng.random() < 0.1 else int(rng.choice(places))
        kind = int(rng.integers(6))
        if kind <= 1:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            out[at] = int(rng.integers(256))
        elif kind == 3:
            at -= at % 4
            value = int(rng.choice((*INTERESTING, len(data), len(data) - at)))
            out[at : at + 4] = value.to_bytes(4, "little")
        elif kind == 4:
            size, source = int(rng.integers(1, 32)), int(rng.choice(places))
            out[at : at + size] = data[source : source + size]
        else:
            value = int.from_bytes(out[at : at + 4], "little") + int(rng.integers(-16, 17))
            out[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    if rng.random() < 0.02:
        del out[int(rng.integers(len(out))) :]
    return bytes(out)


@contextmanager
def limits(seconds: float, spare: int) -> Iterator[Callable[[bool], None]]:
    """At most `spare` bytes more than now, and a switch for the clock of a case."""
    import resource

    def expire(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds} s")

    def clock(on: bool) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds if on else 0)

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + spare, hard))
    previous = signal.signal(signal.SIGALRM, expire)
    try:
        yield clock
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def try_case(data: bytes, run_too: bool) -> str:
    """What became of a model: the name of an outcome. What should not be is raised."""
    try:
        model = Model.from_buffer(data)
    except InvalidModelError:
        return "refused"
    touch(model)
    if not run_too:
        return "loaded"
    try:
        run(data)
    except (ValueError, RuntimeError) as error:
        return f"loaded, then {type(error).__name__}"
    return "loaded and run"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat this case alone")
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of one case")
    parser.add_argument("--run", action="store_true", help="invoke what loads")
    args = parser.parse_args()
    from rich.progress import track

    faulthandler.enable()
    models = [path.read_bytes() for path in args.models]
    places = [structure(data) for data in models]
    outcomes: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    slowest = 0.0
    cases = range(args.count) if args.only is None else [args.only]
    began = time.perf_counter()
    with limits(args.seconds, 1 << 30) as clock:
        for i in track(cases, "mutating", disable=not sys.stderr.isatty()):
            rng = np.random.default_rng((args.seed, i))
            which = i % len(models)
            data = mutate(models[which], places[which], rng)
            start = time.perf_counter()
            clock(True)
            try:
                outcome = try_case(data, args.run)
            except Exception as error:  # all of them are what this looks for
                outcome = f"FAULT {type(error).__name__}"
                faults.append(f"case {i} of {args.models[which].name}: {error!r}")
            clock(False)
            outcomes[outcome] += 1
            slowest = max(slowest, time.perf_counter() - start)
    print(f"{sum(outcomes.values())} cases in {time.perf_counter() - began:.0f} s")
    for outcome, count in outcomes.most_common():
        print(f"  {count:8} {outcome}")
    print(f"slowest case {slowest * 1e3:.0f} ms")
    print("\n".join(faults[:20]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads handwritten digits with two small models, float32 and int8: what `make demo` shows.

The images were held out when the models were trained (`digits_train.py`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from litedelegate import Interpreter

Array = NDArray[Any]

MODELS = Path(__file__).with_name("models")
KINDS = {"float32": "digits_f32.tflite", "int8": "digits_int8.tflite"}
SHADES = " ·░▒▓█"
SHOWN = 8


def load() -> tuple[Array, Array, list[str]]:
    """Images (float32 [n, 8, 8, 1], 0 to 1), their digits, and the classes' names."""
    with np.load(MODELS / "digits_heldout.npz") as held_out:
        images = held_out["images"].astype(np.float32)[..., None] / 16
        digits = held_out["digits"]
    return images, digits, (MODELS / "digits_labels.txt").read_text().split()


def classify(model: Path, images: Array) -> tuple[Array, float]:
    """Scores [n, 10], and the time of an invoke on all images at once."""
    with Interpreter(model, quantize_inputs=True, dequantize_outputs=True) as interpreter:
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], images.shape)
        interpreter.run({"image": images})  # the first one packs weights
        start = time.perf_counter()
        scores: Array = interpreter.run({"image": images})["scores"]
        return scores, time.perf_counter() - start


def picture(image: Array) -> str:
    """Text art, two characters a pixel."""
    levels = np.rint(image[..., 0] * (len(SHADES) - 1)).astype(int)
    return "\n".join("".join(SHADES[v] * 2 for v in row) for row in levels)


def choose(digits: Array, guesses: list[Array]) -> list[int]:
    """Some images to show: one that a model gets wrong if there is one, then other digits."""
    wrong = np.flatnonzero(np.any([g != digits for g in guesses], axis=0))
    chosen = list(map(int, wrong[:1]))
    for i, digit in enumerate(digits):
        if len(chosen) < SHOWN and digit not in digits[chosen]:
            chosen.append(i)
    return sorted(chosen, key=lambda i: int(digits[i]))


def misread(i: int, digits: Array, guesses: dict[str, Array], labels: list[str]) -> str:
    """What is wrong with the guesses for an image; empty where both are right."""
    wrong = {kind: labels[g[i]] for kind, g in guesses.items() if g[i] != digits[i]}
    if not wrong:
        return ""
    says = " and ".join(f"{kind} says {label}" for kind, label in wrong.items())
    return f"[red]misread: {says}[/]"


def main() -> None:
    images, digits, labels = load()
    results = {kind: classify(MODELS / name, images) for kind, name in KINDS.items()}
    guesses = {kind: scores.argmax(axis=1) for kind, (scores, _) in results.items()}
    shown = choose(digits, list(guesses.values()))
    out = Console(highlight=False)

    out.print(f"\n[bold]{len(images)} handwritten digits[/] that the models have never seen\n")
    pictured = sorted(shown, key=lambda i: all(g[i] == digits[i] for g in guesses.values()))[:4]
    pictures = [
        f"{picture(images[i])}\n\nimage {i}, a {digits[i]}\n{misread(i, digits, guesses, labels)}"
        for i in sorted(pictured)
    ]
    out.print(Columns(pictures, padding=(0, 4)))
    out.print()
    table = Table(box=box.SIMPLE_HEAD, title="Some of them", title_justify="left")
    table.add_column("image", justify="right")
    table.add_column("is a")
    for kind in KINDS:
        table.add_column(f"{kind} says")
        table.add_column("confidence", justify="right")
    for i in shown:
        row = [str(i), str(digits[i])]
        for kind, (scores, _) in results.items():
            guess = guesses[kind][i]
            right = guess == digits[i]
            says = f"[green]{labels[guess]}[/]" if right else f"[red]{labels[guess]} (wrong)[/]"
            row += [says, f"{scores[i, guess]:.1%}"]
        table.add_row(*row)
    out.print(table)

    table = Table(box=box.SIMPLE_HEAD, title="All of them", title_justify="left")
    for column in ("model", "size", "right", "accuracy", "time for all"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for kind, (_, seconds) in results.items():
        right = int((guesses[kind] == digits).sum())
        size = (MODELS / KINDS[kind]).stat().st_size
        table.add_row(
            KINDS[kind],
            f"{size / 1024:.1f} KB",
            f"{right} of {len(digits)}",
            f"[bold]{right / len(digits):.1%}[/]",
            f"{seconds * 1e3:.1f} ms",
        )
    out.print(table)
    out.print(placement(MODELS / KINDS["float32"]))


def placement(model: Path) -> Table:
    """The coverage report by operator: what runs where, and how much of the work it is."""
    with Interpreter(model) as interpreter:
        report = interpreter.delegate_coverage()
    work = sum(n.cost.operations for n in report.nodes)
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Coverage of the float32 model, no delegate",
        title_justify="left",
    )
    for column in ("operator", "nodes", "runs on", "of the work"):
        table.add_column(column, justify="right" if column in ("nodes", "of the work") else "left")
    for op in dict.fromkeys(n.op for n in report.nodes):
        nodes = [n for n in report.nodes if n.op == op]
        places = ", ".join(sorted({n.placed_on for n in nodes}))
        share = sum(n.cost.operations for n in nodes) / work
        table.add_row(op, str(len(nodes)), places, f"{share:.1%}")
    return table


if __name__ == "__main__":
    main()

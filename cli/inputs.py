"""From `--input name=source` to arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
SOURCES = """\b
Where an input can come from:
  file.npy       a numpy array; its shape resizes the input
  file.png       an image, or JPEG, BMP, GIF, WebP, TIFF; fitted to the input
                 (needs Pillow: pip install 'litedelegate[images]')
  random[:SEED]  normal floats, any 8- or 16-bit integer, else 0 or 1
  zeros, ones, const:VALUE
  text:TEXT      for a string input
With one input its name can be left out: --input photo.jpg"""


@dataclass(frozen=True)
class ImageScale:
    """A pixel p of 0 to 255 becomes (p - mean) / std."""

    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


def parse(
    pairs: Sequence[str], details: Mapping[str, dict[str, Any]], fill: str | None = None
) -> dict[str, str]:
    """input name -> source. `details` are those of the model's inputs; `fill` serves the others."""
    sources = dict(_split("input", pair, details) for pair in pairs)
    if len(sources) < len(pairs):
        raise click.UsageError("an input is given twice")
    missing = [name for name in details if name not in sources]
    if missing and fill is None:
        raise click.UsageError(
            f"no source for input {', '.join(map(repr, missing))}. {_known(details)} "
            f"Give each one as --input NAME=SOURCE, for instance --input '{missing[0]}=random', "
            "or let --fill random, zeros or ones make up all that are not given."
        )
    return {name: sources.get(name, fill or "") for name in details}


def parse_shapes(
    pairs: Sequence[str], details: Mapping[str, dict[str, Any]]
) -> dict[str, tuple[int, ...]]:
    """input name -> shape, from "name=1,224,224,3"."""
    shapes = {}
    for pair in pairs:
        name, text = _split("shape", pair, details)
        if not re.fullmatch(r"(\d+([,x×]\d+)*)?", text.replace(" ", "")):  # none: a scalar
            raise click.UsageError(f"--shape {pair!r}: {text!r} is no shape like 1,224,224,3")
        shapes[name] = tuple(map(int, re.findall(r"\d+", text)))
    return shapes


def _split(option: str, pair: str, details: Mapping[str, dict[str, Any]]) -> tuple[str, str]:
    # a name may hold "=" itself: the longest that fits counts
    fits = [name for name in details if pair.startswith(f"{name}=")]
    if fits:
        name = max(fits, key=len)
        return name, pair[len(name) + 1 :]
    if len(details) == 1 and "=" not in pair:
        return next(iter(details)), pair
    raise click.UsageError(f"--{option} {pair!r} names no input of the model. {_known(details)}")


def _known(details: Mapping[str, dict[str, Any]]) -> str:
    inputs = (
        f"{n!r} ({np.dtype(d['dtype'])} {list(map(int, d['shape']))})" for n, d in details.items()
    )
    return f"It has {', '.join(inputs)}."


def load(
    name: str, source: str, detail: dict[str, Any], scale: ImageScale, quantize: bool = False
) -> Array:
    """The array for an input with these details (as `get_input_details` gives them).

    With `quantize`, a file may hold floats for a quantised input; they are left as they are.
    """
    dtype = np.dtype(detail["dtype"])
    dtype = np.dtype(object) if dtype.kind == "S" else dtype
    shape = tuple(max(int(d), 0 if d >= 0 else 1) for d in detail["shape"])
    kind, _, value = source.partition(":")
    if kind == "text" and dtype.kind != "O":
        raise click.UsageError(f"input {name!r} is {dtype}; text:… is for strings")
    if (kind == "const" or source in ("zeros", "ones")) and dtype.kind == "O":
        raise click.UsageError(f"input {name!r} takes strings: {kind} makes none, text:… does")
    if kind == "random":
        return random_array(shape, dtype, np.random.default_rng(_number(name, value or "0", int)))
    if source in ("zeros", "ones"):
        return np.full(shape, int(source == "ones"), dtype)
    if kind == "const":
        return np.full(shape, _number(name, value, float), dtype)
    if kind == "text":
        return np.full(shape, value.encode(), object)
    path = Path(source)
    if not path.is_file():
        raise click.UsageError(f"input {name!r}: no such file and no other source: {source!r}")
    if path.suffix.lower() in IMAGES:
        return _image(name, path, shape, detail, scale)
    if path.suffix.lower() == ".npy":
        return _npy(name, path, dtype, quantize and bool(detail["quantization"][0]))
    raise click.UsageError(
        f"input {name!r}: {source!r} is neither .npy nor an image ({' '.join(IMAGES)})"
    )


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise click.UsageError(f"input {name!r}: {text!r} is no number") from None


def random_array(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Normal floats, any 8- or 16-bit integer, else 0 or 1."""
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if dtype.kind in "iub":  # larger integers are counts and indices more often than data
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    raise click.UsageError(f"random makes no {dtype}: give a file or text:…")


def _npy(name: str, path: Path, dtype: np.dtype[Any], quantize: bool) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"input {name!r}: {path} cannot be read: {error}") from None
    if dtype.kind == "O" and array.dtype.kind in "SU":
        text: Array = np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array
        return text.astype(object)
    if array.dtype == dtype or (quantize and array.dtype.kind == "f"):
        return array
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise click.UsageError(
            f"input {name!r}: {path} holds {array.dtype}, the model takes {dtype}"
            + ("; with --quantize floats are quantised" if array.dtype.kind == "f" else "")
        )
    return array.astype(dtype)


def _image(
    name: str, path: Path, shape: tuple[int, ...], detail: dict[str, Any], scale: ImageScale
) -> Array:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise click.UsageError("images need Pillow: pip install 'litedelegate[images]'") from None
    if len(shape) != 4 or shape[3] not in (1, 3, 4):
        raise click.UsageError(
            f"input {name!r} has the shape {list(shape)}; "
            "an image needs [batch, height, width, 1, 3 or 4]"
        )
    _, height, width, channels = shape
    try:
        with Image.open(path) as image:
            fitted = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
            fitted = fitted.resize((width, height), Image.Resampling.BILINEAR)
    except (OSError, UnidentifiedImageError) as error:
        raise click.UsageError(
            f"input {name!r}: {path} cannot be read as an image: {error}"
        ) from None
    pixels = np.asarray(fitted, np.uint8).reshape(1, height, width, channels)
    return np.broadcast_to(scaled(pixels, name, detail, scale), shape).copy()


def scaled(pixels: Array, name: str, detail: dict[str, Any], scale: ImageScale) -> Array:
    """Pixels as the input wants them.

    Without --mean and --std, floats get 0 to 1, uint8 the pixels as they are and int8 the pixels
    less 128: what the quantisation of nearly every image model amounts to. With them the real value
    is quantised as the input says.
    """
    dtype = np.dtype(detail["dtype"])
    if scale.mean is None and scale.std is None:
        if dtype == np.uint8:
            return pixels
        if dtype == np.int8:
            return (pixels.astype(np.int16) - 128).astype(np.int8)
    mean = np.array(scale.mean or (0.0,), np.float32)
    std = np.array(scale.std or (255.0,) if scale.mean is None else scale.std or (1.0,), np.float32)
    real = (pixels.astype(np.float32) - mean) / std
    if dtype.kind == "f":
        return real.astype(dtype)
    step, zero = detail["quantization"]
    if dtype.kind not in "iu" or not step:
        raise click.UsageError(f"input {name!r} is {dtype} without quantisation; give a .npy file")
    info = np.iinfo(dtype)
    stored: Array = np.clip(np.round(real / step) + zero, info.min, info.max).astype(dtype)
    return stored

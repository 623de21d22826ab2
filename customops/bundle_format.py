"""The bytes of a bundle: preamble, manifest, encrypted parts. Reads without a key, runs nothing.

All numbers are little-endian:

     0    8  magic
     8    4  version of the format, 1
    12    4  length of the manifest
    16    8  length of the file
    24   32  the signer's Ed25519 public key
    56   64  the signature over CONTEXT, bytes 0 to 56 and the manifest
   120       the manifest: canonical JSON (sorted keys, no spaces, UTF-8), which has the SHA-256 of
             each part as it is stored
             the parts in the manifest's order, without gaps. Each is cut into chunks; a chunk is
             compressed by itself, encrypted, and has its length before it (4 bytes)

The signature is checked before the manifest is parsed, digests before anything is decrypted.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from .bundle_errors import BundleAltered, BundleError, BundleTooLarge, BundleTruncated

MAGIC = b"\x89LDB\r\n\x1a\n"  # a transfer as text, or of seven bits, damages it
FORMAT = 1
PREAMBLE = struct.Struct("<8sIIQ32s64s")
SIGNED = 56
CONTEXT = b"litedelegate bundle 1\0"
MOST_MANIFEST = 1 << 20
MOST_PARTS = 4096
CHUNKS = (1 << 12, 1 << 22)
TAG = 16
CHUNK_EXTRA = 4 + TAG
# zstd reaches 1 : 20,000 on zeros; what packs better than this is stored as it is
MOST_RATIO = 1000
RATIO_FREE = 1 << 16

CIPHERS = ("aes-256-gcm", "chacha20-poly1305")
KINDS = ("model", "library")
COMPRESSIONS = ("zstd", "none")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
PLATFORM = re.compile(r"[a-z0-9_]{1,20}-[a-z0-9]{1,20}(-[a-z0-9]{1,20})?")
ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
HEX = re.compile(r"([0-9a-f]{2})*")
MOST_NUMBER = (1 << 53) - 1


@dataclass(frozen=True)
class Part:
    """A model, or an op library for one platform. Sizes in bytes: `size` as used, `packed` after
    compression, `stored` after encryption. `ops` are those that a library registers.
    """

    kind: str
    name: str
    version: str
    platform: str
    abi: int
    ops: tuple[str, ...]
    compression: str
    size: int
    packed: int
    stored: int
    salt: str
    sha256: str

    @property
    def identity(self) -> str:
        """What no two parts of a bundle have in common; their keys depend on it."""
        return f"{self.kind} {self.name} {self.platform}"

    def check(self, chunk: int) -> None:
        _one_of(self.kind, KINDS, "kind")
        check_name(self.name)
        _text(self.version, "version")
        _one_of(self.compression, COMPRESSIONS, "compression")
        for label in ("abi", "size", "packed", "stored"):
            _number(getattr(self, label), label)
        _hex(self.salt, 32, "salt")
        _hex(self.sha256, 32, "sha256")
        for op in self.ops:
            _text(op, "op")
        if self.kind == "library":
            check_platform(self.platform)
            _need(bool(self.ops), f"the library {self.name!r} registers no op")
        else:
            none = (self.platform, self.ops, self.abi) == ("", (), 0)
            _need(none, "a model has a library's fields")
        count = max(1, -(-self.size // chunk))
        _need(
            self.stored == self.packed + CHUNK_EXTRA * count, f"the sizes of {self.name!r} disagree"
        )
        if self.compression == "none":
            _need(self.size == self.packed, f"the sizes of {self.name!r} disagree")
        elif self.size > RATIO_FREE + MOST_RATIO * self.packed:
            raise BundleTooLarge(
                f"the part {self.name!r} says that {self.packed} bytes unpack to {self.size}: more "
                f"than {MOST_RATIO} to 1 is refused"
            )


@dataclass(frozen=True)
class PythonOp:
    """An op written in Python that is installed where the bundle is opened: `entry` is
    "module:name", of a `Registration` or a `custom_op`.
    """

    op: str
    entry: str

    def check(self) -> None:
        _text(self.op, "op")
        check_entry(self.entry)


@dataclass(frozen=True)
class WrappedKey:
    """The content key, encrypted for somebody. `kind` is "recipient" (X25519; `public` is theirs,
    `ephemeral` the one-time key), "passphrase" (scrypt with n, r, p) or "secret" (a 256-bit key).
    """

    kind: str
    salt: str
    wrapped: str
    public: str = ""
    ephemeral: str = ""
    n: int = 0
    r: int = 0
    p: int = 0

    def check(self) -> None:
        _one_of(self.kind, ("recipient", "passphrase", "secret"), "kind of key")
        _hex(self.salt, 32, "salt")
        _hex(self.wrapped, 32 + TAG, "wrapped key")
        of = 32 if self.kind == "recipient" else 0
        _hex(self.public, of, "public key")
        _hex(self.ephemeral, of, "ephemeral key")
        if self.kind == "passphrase":
            check_scrypt(self.n, self.r, self.p)
        else:
            _need((self.n, self.r, self.p) == (0, 0, 0), "a key has a passphrase's numbers")


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself."""

    name: str
    version: str
    release: int
    cipher: str
    chunk: int
    keys: tuple[WrappedKey, ...]
    parts: tuple[Part, ...]
    python_ops: tuple[PythonOp, ...]

    def check(self) -> None:
        check_name(self.name)
        _text(self.version, "version")
        _number(self.release, "release")
        _one_of(self.cipher, CIPHERS, "cipher")
        low, high = CHUNKS
        _need(type(self.chunk) is int and low <= self.chunk <= high, "chunks of no allowed size")
        _need(len(self.parts) + len(self.python_ops) <= MOST_PARTS, "too many parts")
        _need(0 < len(self.keys) <= 256, "no key, or too many")
        _need(sum(k.kind == "passphrase" for k in self.keys) <= 4, "too many passphrases")
        for key in self.keys:
            key.check()
        for part in self.parts:
            part.check(self.chunk)
        for op in self.python_ops:
            op.check()
        _unique((p.identity for p in self.parts), "parts")
        native = [(op, p.platform) for p in self.parts for op in p.ops]
        _unique((f"{op} for {platform}" for op, platform in native), "ops")
        _unique([*(op.op for op in self.python_ops), *{op for op, _ in native}], "ops")

    @property
    def models(self) -> list[str]:
        return [p.name for p in self.parts if p.kind == "model"]

    @property
    def libraries(self) -> dict[str, list[Part]]:
        """Those of one name are the same library for several platforms."""
        found: dict[str, list[Part]] = {}
        for part in self.parts:
            if part.kind == "library":
                found.setdefault(part.name, []).append(part)
        return found

    def encode(self) -> bytes:
        return _canonical(asdict(self))


@dataclass(frozen=True)
class Envelope:
    """A bundle whose preamble was read: nothing in it is believed yet."""

    data: memoryview
    signer: bytes
    signature: bytes
    manifest_bytes: bytes

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        return CONTEXT + bytes(self.data[:SIGNED]) + self.manifest_bytes

    def manifest(self) -> Manifest:
        """BundleAltered where it is none; whether it is signed is the caller's to ask first."""
        manifest = decode_manifest(self.manifest_bytes)
        length = self.parts_start + sum(p.stored for p in manifest.parts)
        if length != len(self.data):
            raise BundleAltered(
                f"the manifest's parts end at byte {length}, the file at {len(self.data)}"
            )
        return manifest

    @property
    def parts_start(self) -> int:
        return PREAMBLE.size + len(self.manifest_bytes)

    def stored(self, manifest: Manifest) -> Iterator[tuple[Part, memoryview]]:
        """Each part with its encrypted bytes."""
        at = self.parts_start
        for part in manifest.parts:
            yield part, self.data[at : at + part.stored]
            at += part.stored

    def check_digests(self, manifest: Manifest) -> None:
        for part, stored in self.stored(manifest):
            if hashlib.sha256(stored).hexdigest() != part.sha256:
                raise BundleAltered(
                    f"the {part.kind} {part.name!r} was altered: its SHA-256 is not the signed one"
                )


def read_envelope(data: bytes | bytearray | memoryview) -> Envelope:
    """Takes a file apart by its preamble."""
    view = memoryview(data).cast("B")
    start = bytes(view[: len(MAGIC)])
    if not MAGIC.startswith(start) or not start:
        raise BundleAltered("this is no litedelegate bundle: it begins differently")
    if len(view) < PREAMBLE.size:
        raise BundleTruncated(
            f"the bundle is cut off: {len(view)} bytes, its preamble alone has {PREAMBLE.size}"
        )
    _, version, manifest, length, signer, signature = PREAMBLE.unpack_from(view)
    if version != FORMAT:
        raise BundleError(
            f"the bundle has format {version}; this version of litedelegate reads format {FORMAT}"
        )
    if length != len(view):
        raise BundleTruncated(
            f"the bundle is {'cut off' if len(view) < length else 'too long'}: it says that it has "
            f"{length} bytes, and has {len(view)}"
        )
    if manifest > min(MOST_MANIFEST, length - PREAMBLE.size):
        raise BundleAltered(f"a manifest of {manifest} bytes is not possible here")
    text = bytes(view[PREAMBLE.size : PREAMBLE.size + manifest])
    return Envelope(view, signer, signature, text)


def preamble(manifest: bytes, length: int, signer: bytes, signature: bytes) -> bytes:
    return PREAMBLE.pack(MAGIC, FORMAT, len(manifest), length, signer, signature)


def decode_manifest(text: bytes) -> Manifest:
    """The manifest, with every field checked."""
    try:
        # decoded here: given bytes, json looks for other encodings and imports their modules
        values = json.loads(text.decode())
        canonical = _canonical(values) == text
    except (ValueError, RecursionError):
        raise BundleAltered("the manifest is no JSON") from None
    _need(canonical, "it is not in canonical form")
    manifest = _take(Manifest, values)
    manifest.check()
    return manifest


Record = TypeVar("Record", Manifest, Part, PythonOp, WrappedKey)


def _take(kind: type[Record], values: Any) -> Record:
    names = {f.name for f in fields(kind)}
    _need(isinstance(values, dict) and values.keys() == names, f"no {kind.__name__} where one goes")
    taken: dict[str, Any] = dict(values)
    lists: Mapping[str, Any] = {"keys": WrappedKey, "parts": Part, "python_ops": PythonOp}
    for label in names & {*lists, "ops"}:
        _need(isinstance(taken[label], list) and len(taken[label]) <= MOST_PARTS, f"{label}: none")
        inner = lists.get(label)
        taken[label] = tuple(_take(inner, v) if inner else v for v in taken[label])
    return kind(**taken)


def _canonical(values: Any) -> bytes:
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def check_name(name: object) -> None:
    _need(
        isinstance(name, str) and NAME.fullmatch(name) is not None,
        f"{name!r:.120} is no name: it takes 1 to 100 letters, digits, '_', '.', '+' and '-'",
    )


def check_platform(platform: object) -> None:
    _need(
        isinstance(platform, str) and PLATFORM.fullmatch(platform) is not None,
        f"{platform!r:.120} is no platform like x86_64-linux-gnu",
    )


def check_entry(entry: object) -> None:
    _need(
        isinstance(entry, str) and len(entry) <= 200 and ENTRY.fullmatch(entry) is not None,
        f"{entry!r:.120} is no entry point like package.module:name",
    )


def check_scrypt(n: object, r: object, p: object) -> None:
    """At most 256 MiB and four passes, whatever a file asks for."""
    ok = type(n) is int and type(r) is int and type(p) is int
    ok = ok and 1 << 10 <= n <= 1 << 20 and n & (n - 1) == 0  # type: ignore[operator]
    ok = ok and 1 <= r <= 32 and 1 <= p <= 4 and 128 * n * r <= 1 << 28  # type: ignore[operator]
    if not ok:
        raise BundleTooLarge("the passphrase's scrypt numbers are beyond what is allowed")


def _need(ok: bool, text: str) -> None:
    if not ok:
        raise BundleAltered(f"the bundle's manifest does not hold: {text}")


def _one_of(value: object, allowed: tuple[str, ...], what: str) -> None:
    _need(value in allowed, f"{what}: one of {', '.join(allowed)}, not {value!r:.40}")


def _text(value: object, what: str) -> None:
    ok = isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()
    _need(ok, f"{what}: 1 to 200 printable characters, not {value!r:.40}")


def _number(value: object, what: str) -> None:
    ok = type(value) is int and 0 <= value <= MOST_NUMBER
    _need(ok, f"{what}: no number from 0 on")


def _hex(value: object, size: int, what: str) -> None:
    ok = isinstance(value, str) and len(value) == 2 * size and HEX.fullmatch(value) is not None
    _need(ok, f"{what}: no {size} bytes in hexadecimal")


def _unique(keys: Iterable[str], what: str) -> None:
    found = Counter(keys)
    twice = [key for key, count in found.items() if count > 1]
    _need(not twice, f"{what} of the same name: {', '.join(map(str, twice)):.120}")

"""Making bundles: compress, encrypt, describe, sign, write."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..runtime.model import InvalidModelError, Model
from .bundle_crypto import PartCipher, sign, wipe, wrap
from .bundle_errors import BundleError
from .bundle_format import (
    CHUNKS,
    CIPHERS,
    MOST_MANIFEST,
    MOST_RATIO,
    PREAMBLE,
    RATIO_FREE,
    SIGNED,
    Envelope,
    Manifest,
    Part,
    PythonOp,
    preamble,
)
from .bundle_keys import Key
from .platforms import this_platform, triple

try:
    import zstandard
except ImportError as error:
    raise ImportError(
        "bundles need the cryptography and zstandard packages: pip install 'litedelegate[bundle]'"
    ) from error

Content = str | os.PathLike[str] | bytes
CHUNK = 1 << 18  # fits a core's cache
MIN_MATCH = 6  # weights are full of shorter ones, which take long to put together again
WORTH = 0.9  # what compresses less than this is stored as it is: it opens sooner


@dataclass(frozen=True)
class Library:
    """An op library for one platform: its content or its file, and the ops that it registers. The
    platform is what `op build --target` takes ("x86_64-linux-gnu"; "linux-x86_64" is the same).
    `abi` is that of the header it is built with, by default this version's.
    """

    name: str
    platform: str
    content: Content
    ops: Sequence[str]
    version: str = "1"
    abi: int | None = None


def create(
    path: str | os.PathLike[str],
    *,
    name: str,
    signer: Key,
    readers: Sequence[Key],
    models: Mapping[str, Content] | None = None,
    libraries: Sequence[Library] = (),
    python_ops: Mapping[str, str] | None = None,
    version: str = "1",
    release: int = 1,
    model_versions: Mapping[str, str] | None = None,
    cipher: str = CIPHERS[0],
    level: int = 9,
    chunk: int = CHUNK,
) -> Manifest:
    """Writes a bundle in place of whatever `path` was; nothing unencrypted is written.

    * `readers`: who opens it: "recipient-public", "passphrase" and "secret" keys.
    * `models`: name to content or file. `python_ops`: op to "module:name" where it is opened.
    * `release`: a whole number that grows with every bundle of this name.
    * `level`: zstd's, 1 to 19. `chunk`: bytes that are encrypted at a time, 4 KiB to 4 MiB.

    BundleError where a model is none or anything does not fit.
    """
    if not (models or libraries or python_ops):
        raise BundleError("there is nothing to pack: give models, libraries or python_ops")
    if not readers:
        raise BundleError("nobody could open the bundle: give readers=[...]")
    if not 1 <= level <= 19:
        raise BundleError(f"compression level {level}: it takes 1 to 19")
    if cipher not in CIPHERS or not CHUNKS[0] <= chunk <= CHUNKS[1]:
        raise BundleError(f"cipher {cipher!r:.40} and chunk {chunk}: no such cipher, or no size")
    versions = dict(model_versions or {})
    drafts: list[tuple[Part, bytes]] = []
    for model, source in (models or {}).items():
        content = _content(source)
        _check_model(model, content)
        part = _draft("model", model, versions.pop(model, "1"))
        drafts.append((part, content))
    if versions:
        raise BundleError(f"versions of models that are not packed: {', '.join(versions)}")
    for lib in libraries:
        abi = _own_abi() if lib.abi is None else lib.abi
        platform = triple(lib.platform)
        if isinstance(lib.ops, str):
            raise BundleError(f"the ops of the library {lib.name!r} are a list of names: [...]")
        part = _draft("library", lib.name, lib.version, platform, abi, tuple(lib.ops))
        drafts.append((part, _content(lib.content)))
    ops = tuple(PythonOp(op, entry) for op, entry in (python_ops or {}).items())
    content_key = bytearray(os.urandom(32))
    try:
        packed = [_pack(part, data, content_key, cipher, chunk, level) for part, data in drafts]
        keys = tuple(wrap(content_key, reader) for reader in readers)
    finally:
        wipe(content_key)
    parts = tuple(part for part, _ in packed)
    manifest = Manifest(name, version, release, cipher, chunk, keys, parts, ops)
    manifest.check()
    for part, content in drafts:
        if part.platform == this_platform():
            _check_library(part, content)
    _write(Path(path), seal(manifest, [stored for _, stored in packed], signer))
    return manifest


def seal(manifest: Manifest, stored: Sequence[bytes], signer: Key) -> list[bytes]:
    """The bytes of a bundle, signed."""
    text = manifest.encode()
    if len(text) > MOST_MANIFEST:
        raise BundleError(f"the manifest has {len(text)} bytes, at most {MOST_MANIFEST} are taken")
    length = PREAMBLE.size + len(text) + sum(map(len, stored))
    public = bytes(signer.public().material)
    draft = preamble(text, length, public, bytes(64))
    signature = sign(Envelope(memoryview(draft), public, b"", text).signed, signer)
    return [draft[:SIGNED] + signature, text, *stored]


def _draft(
    kind: str,
    name: str,
    version: str,
    platform: str = "",
    abi: int = 0,
    ops: tuple[str, ...] = (),
) -> Part:
    return Part(kind, name, version, platform, abi, ops, "none", 0, 0, 0, "", "")


def _own_abi() -> int:
    from ._table import ABI  # ctypes and all that comes with it: for libraries alone

    return ABI


def _content(source: Content) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise BundleError(f"{os.fspath(source)} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a path with a zero in it
        raise BundleError(f"{os.fspath(source)!r} cannot be read: {error}") from None


def _check_model(name: str, content: bytes) -> None:
    try:
        Model.from_buffer(content)
    except InvalidModelError as error:
        raise BundleError(f"the model {name!r} is not valid: {error}") from None


def _check_library(part: Part, content: bytes) -> None:
    """As far as that goes without loading it: another platform's is the receiver's to check."""
    from ..runtime.capi.binary import LibraryError, check_library
    from ._classic import registering
    from ._errors import ENTRY, no_entry

    what = f"the op library {part.name!r} for {part.platform}"
    try:
        functions = check_library(content, what)
    except LibraryError as error:
        raise BundleError(str(error)) from None
    if functions is not None and ENTRY not in functions and not registering(functions):
        raise BundleError(no_entry(what))


def _pack(
    part: Part, data: bytes, content_key: bytearray, cipher: str, chunk: int, level: int
) -> tuple[Part, bytes]:
    starts = range(0, max(1, len(data)), chunk)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=min(chunk, len(data)), min_match=MIN_MATCH
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    chunks = [packer.compress(data[at : at + chunk]) for at in starts]
    compression, packed = "zstd", sum(map(len, chunks))
    if packed > WORTH * len(data) or len(data) > RATIO_FREE + MOST_RATIO * packed:
        chunks = [data[at : at + chunk] for at in starts]
        compression, packed = "none", len(data)
    salt = os.urandom(32)
    stored = b"".join(PartCipher(cipher, content_key, salt, part.identity).encrypt(chunks))
    done = replace(
        part,
        compression=compression,
        size=len(data),
        packed=packed,
        stored=len(stored),
        salt=salt.hex(),
        sha256=hashlib.sha256(stored).hexdigest(),
    )
    return done, stored


def _write(path: Path, pieces: Sequence[bytes]) -> None:
    """A whole file or none. One that was there keeps its mode, and a link to it stays a link."""
    try:
        path = path.resolve()
        draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
        with draft.open("xb") as file:  # as the umask has it
            try:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
                file.close()
                if path.exists():
                    draft.chmod(stat.S_IMODE(path.stat().st_mode))
                os.replace(draft, path)
            except BaseException:
                file.close()
                draft.unlink()
                raise
    except (OSError, ValueError) as error:  # ValueError: a path with a zero in it
        raise BundleError(f"the bundle {str(path)!r} cannot be written: {error}") from None

"""Opening bundles: signature, manifest, release, digests, key, and only then content, in memory."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..kernels.types import Array
from .bundle_crypto import PartCipher, check_own_signature, check_signature, unwrap, wipe
from .bundle_errors import (
    BundleAltered,
    BundleError,
    BundleOutdated,
    BundleTooLarge,
    BundleWrongSigner,
)
from .bundle_format import Envelope, Manifest, Part, read_envelope
from .bundle_keys import Key, KeySource, ask, trusted_signers

if sys.platform != "win32":
    import fcntl

try:
    import zstandard
except ImportError as error:
    raise ImportError(
        "bundles need the cryptography and zstandard packages: pip install 'litedelegate[bundle]'"
    ) from error

Source = str | os.PathLike[str] | bytes
MOST_BYTES = 1 << 31
MOST_WORKERS = 4
_CHANGING = threading.Lock()  # of lists of releases


def memory(size: int) -> Array:
    """numpy asks for large pages, which come many times as fast as bytearray's."""
    return np.empty(size, np.uint8)


class Checked(NamedTuple):
    """A bundle that is what its signer made."""

    envelope: Envelope
    manifest: Manifest

    @property
    def line(self) -> str:
        """What releases are counted by: signer and name."""
        return f"{self.envelope.signer.hex()}/{self.manifest.name}"


def verify(
    source: Source,
    *,
    trusted: Sequence[Key | bytes],
    minimum_release: int = 0,
    releases: Mapping[str, int] | None = None,
    name: str | None = None,
    max_bytes: int = MOST_BYTES,
) -> Checked:
    """All checks that need no key; see `Bundle.open` for the arguments. `releases` is only read."""
    checked = check_manifest(source, trusted, minimum_release, releases, name, max_bytes)
    checked.envelope.check_digests(checked.manifest)
    return checked


def check_manifest(
    source: Source,
    trusted: Sequence[Key | bytes],
    minimum_release: int,
    releases: Mapping[str, int] | None,
    name: str | None,
    max_bytes: int,
) -> Checked:
    """The same but for the digests of the parts, which `decrypt` checks."""
    signers = trusted_signers(trusted)
    envelope = read_envelope(_read(source, max_bytes))
    check_signature(envelope, signers)
    manifest = envelope.manifest()
    if name is not None and manifest.name != name:
        raise BundleWrongSigner(f"this is the signer's bundle {manifest.name!r}, not {name!r}")
    checked = Checked(envelope, manifest)
    seen = releases.get(checked.line, 0) if releases is not None else 0
    least = max(minimum_release, seen)
    if manifest.release < least:
        raise BundleOutdated(
            f"this is release {manifest.release} of {manifest.name!r}, and {least} is the oldest "
            "that is taken: somebody may be replaying an old bundle"
        )
    return checked


def note_release(checked: Checked, releases: MutableMapping[str, int]) -> None:
    line, release = checked.line, checked.manifest.release
    if isinstance(releases, ReleaseFile):
        releases.raise_to(line, release)
    elif release > releases.get(line, 0):
        releases[line] = release


def inspect(source: Source, max_bytes: int = MOST_BYTES) -> Checked:
    """The same for whoever trusts nobody yet: shows damage, proves nothing about who made it."""
    envelope = read_envelope(_read(source, max_bytes))
    check_own_signature(envelope)
    manifest = envelope.manifest()
    envelope.check_digests(manifest)
    return Checked(envelope, manifest)


def decrypt(
    checked: Checked, key: KeySource, wanted: Callable[[Part], bool], max_bytes: int = MOST_BYTES
) -> dict[str, Array]:
    """identity -> content of the wanted parts. Keys that are made on the way are wiped.

    The digests are checked meanwhile, and before anything is given out. What was altered by anybody
    who has no reader's key is not even unpacked: each chunk is authenticated first.
    """
    envelope, manifest = checked
    chosen = [(part, stored) for part, stored in envelope.stored(manifest) if wanted(part)]
    total = sum(part.size for part, _ in chosen)
    if total > max_bytes:
        raise BundleTooLarge(
            f"the bundle unpacks to {total} bytes, and at most {max_bytes} are allowed (max_bytes)"
        )
    used, passing = ask(key, manifest)
    try:
        content_key = unwrap(manifest.keys, used)
    finally:
        if passing:
            used.wipe()
    contents: dict[str, Array] = {}
    with ThreadPoolExecutor(1) as pool:  # hashing works outside of Python's lock
        digests = pool.submit(envelope.check_digests, manifest)
        try:
            try:
                for part, stored in chosen:
                    contents[part.identity] = _unpack(part, stored, manifest, content_key)
            finally:
                wipe(content_key)
                digests.result()  # what it raises comes before any damage found on the way
        except BaseException:
            wipe(*contents.values())
            raise
    return contents


def _read(source: Source, max_bytes: int) -> memoryview:
    if isinstance(source, bytes):
        if len(source) > max_bytes:
            raise BundleTooLarge(
                f"the bundle has {len(source)} bytes, and {max_bytes} are allowed (max_bytes)"
            )
        return memoryview(source)
    try:
        with Path(source).open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise BundleTooLarge(
                    f"the file has {size} bytes, and {max_bytes} are allowed (max_bytes)"
                )
            view = memory(size).data
            at = 0
            while at < size and (got := file.readinto(view[at:])):
                at += got
    except (OSError, ValueError) as error:  # ValueError: a path with a zero in it
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"the bundle {os.fspath(source)!r} cannot be read: {error}") from None
    return view[:at]


def _unpack(part: Part, stored: memoryview, manifest: Manifest, content_key: bytearray) -> Array:
    """Never more than the declared size, however the content is made: what a chunk unpacks to is
    known before it is.
    """
    what = f"the {part.kind} {part.name!r}"
    salt = bytes.fromhex(part.salt)
    cipher = PartCipher(manifest.cipher, content_key, salt, part.identity)
    size = manifest.chunk
    most = size + (size >> 6)
    chunks = cipher.split(stored, most)
    out = memory(part.size)
    if len(chunks) != max(1, -(-part.size // size)):
        raise BundleAltered(f"{what} is not of the size it declares")
    view = out.data

    def unpack(first: int) -> None:
        packed = part.compression == "zstd"
        unpacker = zstandard.ZstdDecompressor(max_window_size=max(1 << 10, size))
        own = memory(most if packed else 0)
        try:
            for i in range(first, len(chunks), workers):
                room = view[i * size : min((i + 1) * size, part.size)]
                clear = own.data if packed else room
                got = cipher.decrypt(*chunks[i], clear)
                if packed:
                    _decompress(unpacker, clear[:got], room, what)
                elif got != len(room):
                    raise BundleAltered(f"{what} is not of the size it declares")
        finally:
            wipe(own)

    workers = min(MOST_WORKERS, os.cpu_count() or 1, len(chunks))
    if workers == 1:
        unpack(0)
    else:
        with ThreadPoolExecutor(workers) as pool:  # zstd works outside of Python's lock
            list(pool.map(unpack, range(workers)))
    return out


def _decompress(
    unpacker: zstandard.ZstdDecompressor, frame: memoryview, room: memoryview, what: str
) -> None:
    """Straight into `room`, which it must fill: without Python's lock, and without a copy."""
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        if size > len(room):
            raise BundleTooLarge(f"{what} unpacks to more than the bytes it declares")
        with unpacker.stream_reader(frame) as reader:
            filled = reader.readinto(room) if room else 0
            more = reader.read(1)
    except zstandard.ZstdError:
        raise BundleAltered(f"{what} does not unpack") from None
    if filled != len(room) or more:
        raise BundleAltered(f"{what} is not of the size it declares")


class ReleaseFile(MutableMapping[str, int]):
    """The newest release seen of each bundle, in a JSON file: `Bundle.open(releases=…)`.

    Keep it where whoever could replace the bundle cannot write. Threads, and processes except on
    Windows, change it one after the other.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def _load(self) -> dict[str, int]:
        try:
            values = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise BundleError(f"the list of releases {self.path} is not read: {error}") from None
        if not isinstance(values, dict) or not all(type(v) is int for v in values.values()):
            raise BundleError(f"the list of releases {self.path} is damaged")
        return values

    def _save(self, values: dict[str, int]) -> None:
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump(values, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
        except OSError as error:
            raise BundleError(f"the list of releases is not written: {error}") from None

    @contextmanager
    def _alone(self) -> Iterator[dict[str, int]]:
        """What there is, for whoever is about to change it. The folder is what is locked: the file
        itself is replaced.
        """
        with _CHANGING:
            if sys.platform == "win32":
                yield self._load()
                return
            try:
                folder = os.open(self.path.parent, os.O_RDONLY)
            except OSError as error:
                raise BundleError(f"the list of releases is not written: {error}") from None
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                yield self._load()
            finally:
                os.close(folder)

    def raise_to(self, key: str, value: int) -> None:
        """Sets a release unless a newer one is there already."""
        with self._alone() as values:
            if value > values.get(key, 0):
                self._save({**values, key: value})

    def __getitem__(self, key: str) -> int:
        return self._load()[key]

    def __setitem__(self, key: str, value: int) -> None:
        with self._alone() as values:
            self._save({**values, key: value})

    def __delitem__(self, key: str) -> None:
        with self._alone() as values:
            del values[key]
            self._save(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

"""The cryptography of bundles, all of it by the `cryptography` package.

* A random content key for each bundle, wrapped for each reader (AES-256-GCM under a key from HKDF
  of X25519's shared secret or of a secret key, or from scrypt).
* From it and a random salt HKDF makes a key for each part. A part is encrypted in chunks, as in the
  STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár, 2015): the nonce is seven bytes from
  HKDF, a counter and whether this is the last one, so that chunks left out, repeated or in another
  order do not decrypt.
* Ed25519 for the signature.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from ..kernels.types import Array
from .bundle_errors import BundleAltered, BundleWrongKey, BundleWrongSigner
from .bundle_format import TAG, Envelope, WrappedKey, check_scrypt
from .bundle_keys import Key, fingerprint

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
except ImportError as error:
    raise ImportError(
        "bundles need the cryptography and zstandard packages: pip install 'litedelegate[bundle]'"
    ) from error

_ZERO_NONCE = bytes(12)  # each wrapping key is derived from fresh randomness and used once


def wipe(*buffers: bytearray | Array) -> None:
    for buffer in buffers:
        np.frombuffer(buffer, np.uint8).fill(0)


def derive(secret: bytes | bytearray, salt: bytes, purpose: bytes, size: int = 32) -> bytearray:
    """HKDF-SHA-256."""
    info = b"litedelegate bundle 1 " + purpose
    return bytearray(HKDF(algorithm=SHA256(), length=size, salt=salt, info=info).derive(secret))


# -- the content key


def wrap(content_key: bytearray, key: Key) -> WrappedKey:
    """For a "recipient-public", "passphrase" or "secret" key."""
    salt = os.urandom(32)
    public = ephemeral = b""
    n, r, p = 0, 0, 0
    if key.kind in ("recipient", "recipient-public"):
        public = bytes(key.public().material)
        once = X25519PrivateKey.generate()
        ephemeral = once.public_key().public_bytes_raw()
        shared = bytearray(once.exchange(X25519PublicKey.from_public_bytes(public)))
        wrapping = derive(shared, salt, b"recipient" + ephemeral + public)
        wipe(shared)
    elif key.kind == "passphrase":
        n, r, p = key.scrypt_n, 8, 1
        check_scrypt(n, r, p)
        wrapping = bytearray(Scrypt(salt=salt, length=32, n=n, r=r, p=p).derive(key.material))
    elif key.kind == "secret":
        wrapping = derive(key.material, salt, b"secret")
    else:
        raise BundleWrongKey(f"a {key.kind} key encrypts nothing")
    wrapped = AESGCM(wrapping).encrypt(_ZERO_NONCE, bytes(content_key), None)
    wipe(wrapping)
    kind = "recipient" if public else key.kind
    return WrappedKey(kind, salt.hex(), wrapped.hex(), public.hex(), ephemeral.hex(), n, r, p)


def unwrap(entries: tuple[WrappedKey, ...], key: Key) -> bytearray:
    """The content key. BundleWrongKey where none of the entries is for this key."""
    if key.kind not in ("recipient", "passphrase", "secret"):
        raise BundleWrongKey(f"a {key.kind} key opens nothing")
    public = key.public().material.hex() if key.kind == "recipient" else ""
    for entry in entries:
        if entry.kind != key.kind or entry.public != public:
            continue
        wrapping = _wrapping_key(entry, key)
        try:
            opened = AESGCM(wrapping).decrypt(_ZERO_NONCE, bytes.fromhex(entry.wrapped), None)
            return bytearray(opened)
        except InvalidTag:
            continue
        finally:
            wipe(wrapping)
    kinds = ", ".join(sorted({e.kind for e in entries}))
    raise BundleWrongKey(f"this {key.kind} key does not open the bundle; it takes: {kinds}")


def _wrapping_key(entry: WrappedKey, key: Key) -> bytearray:
    salt = bytes.fromhex(entry.salt)
    if entry.kind == "secret":
        return derive(key.material, salt, b"secret")
    if entry.kind == "passphrase":
        kdf = Scrypt(salt=salt, length=32, n=entry.n, r=entry.r, p=entry.p)
        return bytearray(kdf.derive(key.material))
    private = X25519PrivateKey.from_private_bytes(key.material)
    ephemeral, public = bytes.fromhex(entry.ephemeral), bytes.fromhex(entry.public)
    try:
        shared = bytearray(private.exchange(X25519PublicKey.from_public_bytes(ephemeral)))
    except ValueError:  # a point of small order
        raise BundleAltered("the bundle's one-time public key is none") from None
    wrapping = derive(shared, salt, b"recipient" + ephemeral + public)
    wipe(shared)
    return wrapping


# -- parts


class PartCipher:
    """Encrypts or decrypts the chunks of one part."""

    def __init__(self, cipher: str, content_key: bytearray, salt: bytes, part: str) -> None:
        made = derive(content_key, salt, f"part {cipher} {part}".encode(), 32 + 7)
        key = made[:32]
        self._prefix = bytes(made[32:])
        self._aead = AESGCM(key) if cipher == "aes-256-gcm" else ChaCha20Poly1305(key)
        wipe(made, key)

    def encrypt(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        """At least one chunk, which may be empty. Each comes with its length before it."""
        for i, chunk in enumerate(chunks):
            made = self._aead.encrypt(self._nonce(i, i + 1 == len(chunks)), chunk, None)
            yield len(made).to_bytes(4, "little") + made

    def split(self, stored: memoryview, most: int) -> list[tuple[bytes, memoryview]]:
        """Nonce and bytes of each encrypted chunk, of at most `most` bytes in the clear."""
        found: list[tuple[bytes, memoryview]] = []
        at = 0
        while at < len(stored):
            size = int.from_bytes(stored[at : at + 4], "little")
            at += 4
            if not TAG <= size <= min(most + TAG, len(stored) - at):
                raise BundleAltered(f"chunk {len(found)} of a part has an impossible length")
            nonce = self._nonce(len(found), at + size == len(stored))
            found.append((nonce, stored[at : at + size]))
            at += size
        return found

    def decrypt(self, nonce: bytes, chunk: memoryview, room: memoryview) -> int:
        """Into the beginning of `room`; how many bytes. BundleAltered where the chunk is not as it
        was made, or not in its place.
        """
        size = len(chunk) - TAG
        if size > len(room):
            raise BundleAltered("a chunk of a part is longer than its part")
        try:
            if hasattr(self._aead, "decrypt_into"):  # from cryptography 47 on
                self._aead.decrypt_into(nonce, chunk, None, room[:size])
            else:
                room[:size] = self._aead.decrypt(nonce, chunk, None)
        except InvalidTag:
            raise BundleAltered("a chunk of a part does not decrypt") from None
        return size

    def _nonce(self, i: int, last: bool) -> bytes:
        return self._prefix + i.to_bytes(4, "big") + bytes([last])


# -- the signature


def sign(data: bytes, key: Key) -> bytes:
    if key.kind != "signer":
        raise BundleWrongKey(f"a {key.kind} key signs nothing: a bundle is made with a signer key")
    return Ed25519PrivateKey.from_private_bytes(key.material).sign(data)


def check_signature(envelope: Envelope, trusted: list[bytes]) -> None:
    """BundleWrongSigner, or BundleAltered where the signer is right and the signature is not."""
    who = fingerprint(envelope.signer)
    if envelope.signer not in trusted:
        known = ", ".join(map(fingerprint, trusted))
        raise BundleWrongSigner(f"the bundle is signed by {who}; trusted are {known}")
    check_own_signature(envelope)


def check_own_signature(envelope: Envelope) -> None:
    """By the key in the file itself: shows damage, and says nothing about who signed."""
    try:
        public = Ed25519PublicKey.from_public_bytes(envelope.signer)
        public.verify(envelope.signature, envelope.signed)
    except (InvalidSignature, ValueError):
        raise BundleAltered("the bundle was altered: its signature does not hold") from None

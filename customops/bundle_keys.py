"""Keys of bundles, and where they come from: memory, environment, files, callbacks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .bundle_errors import BundleError, BundleWrongKey

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
except ImportError as error:
    raise ImportError(
        "bundles need the cryptography and zstandard packages: pip install 'litedelegate[bundle]'"
    ) from error

if TYPE_CHECKING:
    from .bundle_format import Manifest

# what there is in 32 bytes; a passphrase has any length
KINDS = ("secret", "passphrase", "recipient", "recipient-public", "signer", "signer-public")
LABEL = "litedelegate-key"
MOST_TEXT = 4096
SCRYPT_N = 1 << 17


class Key:
    """A key, in memory that `wipe` overwrites (a `with` statement does so too).

    kind: "secret" is a 256-bit key that both sides have, "passphrase" words; "recipient" (X25519)
    opens what was made for its "recipient-public"; "signer" (Ed25519) signs what whoever trusts its
    "signer-public" opens.
    """

    def __init__(self, kind: str, material: bytes | bytearray, *, scrypt_n: int = SCRYPT_N) -> None:
        """`scrypt_n` is the cost of guessing a passphrase: a power of two, 1 KiB of memory each."""
        if kind not in KINDS:
            raise BundleError(f"a key is one of {', '.join(KINDS)}, not {kind!r:.40}")
        if kind == "passphrase" and not material:
            raise BundleWrongKey("the passphrase is empty")
        if kind != "passphrase" and len(material) != 32:
            raise BundleWrongKey(f"a {kind} key has 32 bytes, not {len(material)}")
        self.kind = kind
        self.scrypt_n = scrypt_n
        self._material = bytearray(material)

    @classmethod
    def generate(cls, kind: str) -> Key:
        """A new "secret", "recipient" or "signer"."""
        if kind not in ("secret", "recipient", "signer"):
            raise BundleError(f"a key of the kind {kind!r:.40} is not made but given")
        return cls(kind, os.urandom(32))

    @classmethod
    def passphrase(cls, words: str, *, scrypt_n: int = SCRYPT_N) -> Key:
        try:
            return cls("passphrase", words.encode(), scrypt_n=scrypt_n)
        except UnicodeEncodeError:  # its text would show a character
            raise BundleWrongKey("the passphrase is no UTF-8 text") from None

    @classmethod
    def parse(cls, text: str | bytes) -> Key:
        """The line that `text()` gives."""
        if isinstance(text, bytes):
            text = text.decode("ascii", "replace")
        words = text.split()
        if len(words) != 3 or words[0] != LABEL or words[1] not in KINDS:
            raise BundleWrongKey(f"this is no key: one is a line '{LABEL} KIND BASE64'")
        try:
            return cls(words[1], base64.b64decode(words[2], validate=True))
        except (binascii.Error, ValueError) as error:
            told = f": {error}" if isinstance(error, BundleError) else ""
            raise BundleWrongKey(f"the {words[1]} key is damaged{told}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Key:
        try:
            with Path(path).open("rb") as file:
                return cls.parse(file.read(MOST_TEXT))
        except (OSError, ValueError) as error:
            if isinstance(error, BundleError):
                raise
            raise BundleWrongKey(f"the key {os.fspath(path)!r} cannot be read: {error}") from None

    @classmethod
    def from_env(cls, variable: str) -> Key:
        """A key's line; any other value is a passphrase."""
        value = os.environ.get(variable)
        if not value:
            raise BundleWrongKey(f"the environment variable {variable} holds no key")
        return cls.parse(value) if value.startswith(LABEL) else cls.passphrase(value)

    @property
    def material(self) -> bytearray:
        if not self._material:
            raise BundleWrongKey(f"this {self.kind} key was wiped")
        return self._material

    @property
    def is_public(self) -> bool:
        return self.kind.endswith("-public")

    def public(self) -> Key:
        """What others get of a "recipient" or "signer" key."""
        if self.is_public:
            return self
        if self.kind == "recipient":
            raw = X25519PrivateKey.from_private_bytes(self.material).public_key().public_bytes_raw()
        elif self.kind == "signer":
            raw = (
                Ed25519PrivateKey.from_private_bytes(self.material).public_key().public_bytes_raw()
            )
        else:
            raise BundleError(f"a {self.kind} key has no public part")
        return Key(f"{self.kind}-public", raw)

    def text(self) -> str:
        """One line, for a file or an environment variable. It holds the key itself."""
        if self.kind == "passphrase":
            raise BundleError("a passphrase is not written down")
        return f"{LABEL} {self.kind} {base64.b64encode(self.material).decode()}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a new file, which others cannot read; BundleError where there is one."""
        mode = 0o644 if self.is_public else 0o600
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise BundleError(f"the key is not written: {error}") from None
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(self.text() + "\n")

    def wipe(self) -> None:
        self._material[:] = bytes(len(self._material))
        self._material = bytearray()

    def __enter__(self) -> Key:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def __repr__(self) -> str:
        shown = fingerprint(bytes(self._material)) if self.is_public and self._material else "…"
        return f"<Key {self.kind} {shown}>"


# a function gets the manifest, signed by somebody trusted; the key it gives is wiped after use
KeySource = Key | bytes | bytearray | Callable[["Manifest"], "Key | bytes | bytearray"]


def ask(source: KeySource, manifest: Manifest) -> tuple[Key, bool]:
    """The key, and whether to wipe it: one that the caller holds stays the caller's."""
    given = source
    if not isinstance(given, Key | bytes | bytearray):
        if not callable(given):
            raise BundleWrongKey(f"a key is a Key, 32 bytes or a function, not {type(given)}")
        given = given(manifest)
    if isinstance(given, Key):
        return given, given is not source
    if not isinstance(given, bytes | bytearray):
        raise BundleWrongKey(f"the function for the key gave {type(given)}, not a Key or 32 bytes")
    return Key("secret", given), True


def trusted_signers(trusted: Sequence[Key | bytes]) -> list[bytes]:
    """Their public keys. BundleError where nobody is trusted."""
    if isinstance(trusted, Key | bytes | str):
        raise BundleError("trusted is a list of signers' public keys")
    found = []
    for key in trusted:
        made = key if isinstance(key, Key) else Key("signer-public", key)
        if made.kind not in ("signer", "signer-public"):
            raise BundleError(f"a {made.kind} key signs nothing; trusted takes signer-public keys")
        found.append(bytes(made.public().material))
    if not found:
        raise BundleError("no signer is trusted: give their public keys, trusted=[...]")
    return found


def fingerprint(public: bytes) -> str:
    """Sixteen letters and digits to compare by eye; for trust compare whole keys."""
    return hashlib.sha256(public).hexdigest()[:16]

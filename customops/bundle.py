"""Bundles: models and their custom ops in one file, signed, encrypted and compressed.

    from litedelegate.customops.bundle import Bundle, Key

    Bundle.create("m.ldb", name="m", signer=signer, readers=[reader.public()],
                  models={"main": "m.tflite"}, python_ops={"Atan": "my_ops.atan:atan"})
    with Bundle.open("m.ldb", key=reader, trusted=[signer.public()]) as bundle:
        interpreter = bundle.interpreter()

docs/bundles.md tells what this protects from and what not. Needs the extra `bundle`.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from importlib import import_module
from typing import Any

from ..kernels.api import Registration
from ..kernels.types import Array
from ..runtime.custom import CustomOp
from ..runtime.interpreter import Interpreter
from .bundle_crypto import wipe
from .bundle_errors import (
    BundleAltered,
    BundleError,
    BundleOutdated,
    BundleTooLarge,
    BundleTruncated,
    BundleWrongKey,
    BundleWrongPlatform,
    BundleWrongSigner,
)
from .bundle_fetch import fetch
from .bundle_format import Manifest, Part, PythonOp
from .bundle_keys import Key, KeySource
from .bundle_open import (
    MOST_BYTES,
    Checked,
    ReleaseFile,
    Source,
    check_manifest,
    decrypt,
    inspect,
    note_release,
    verify,
)
from .bundle_pack import Library, create
from .platforms import this_platform

__all__ = [
    "Bundle",
    "BundleAltered",
    "BundleError",
    "BundleOutdated",
    "BundleTooLarge",
    "BundleTruncated",
    "BundleWrongKey",
    "BundleWrongPlatform",
    "BundleWrongSigner",
    "Checked",
    "Key",
    "Library",
    "Manifest",
    "ReleaseFile",
    "fetch",
    "inspect",
    "this_platform",
    "verify",
]


class Bundle:
    """An open bundle: its contents are in memory, and nowhere else. `open` makes one."""

    create = staticmethod(create)

    def __init__(self, manifest: Manifest, contents: dict[str, Array]) -> None:
        self.manifest = manifest
        self._contents: dict[str, Array] | None = contents
        self._lent: set[str] = set()
        self._ops: dict[str, Registration] | None = None

    @classmethod
    def open(
        cls,
        source: Source,
        *,
        key: KeySource,
        trusted: Sequence[Key | bytes],
        minimum_release: int = 0,
        releases: MutableMapping[str, int] | None = None,
        name: str | None = None,
        max_bytes: int = MOST_BYTES,
    ) -> Bundle:
        """Checks and decrypts a file, or the bytes of one.

        * `key`: a `Key` ("recipient", "passphrase", "secret"), 32 bytes, or a function that is
          given the manifest and returns one; what it returns is wiped after use.
        * `trusted`: public keys of the signers.
        * `minimum_release`, `releases`: the oldest release that is taken, and a mapping (such as a
          `ReleaseFile`) that holds the newest ones seen, and is brought up to date.
        * `name`: the bundle must have this name: a signer may have made others.
        * `max_bytes`: the most that the file may have, and unpack to.

        A subclass of BundleError for whatever is wrong. Nothing of the bundle runs here.
        """
        checked = check_manifest(source, trusted, minimum_release, releases, name, max_bytes)
        _check_platform(checked.manifest)
        contents = decrypt(checked, key, _used_here, max_bytes)
        if releases is not None:
            try:
                note_release(checked, releases)
            except BaseException:
                wipe(*contents.values())
                raise
        return cls(checked.manifest, contents)

    @property
    def models(self) -> list[str]:
        return self.manifest.models

    def model(self, name: str | None = None) -> memoryview:
        """The content of a model, read-only; of the only one where no name is given."""
        contents = self._open_contents()
        known = ", ".join(self.models) or "none"
        if name is None:
            if len(self.models) != 1:
                raise BundleError(f"which model? The bundle has: {known}")
            name = self.models[0]
        part = next((p for p in self.manifest.parts if (p.kind, p.name) == ("model", name)), None)
        if part is None:
            raise BundleError(f"the bundle has no model {name!r:.120}; it has: {known}")
        self._lent.add(part.identity)
        return contents[part.identity].data.toreadonly()

    def registrations(self) -> dict[str, Registration]:
        """The ops of the bundle by name. Modules are imported, libraries loaded here, not before.

        A library is loaded from memory: on Linux alone, elsewhere this is a BundleError.
        """
        contents = self._open_contents()
        if self._ops is None:
            ops = {op.op: _find(op) for op in self.manifest.python_ops}
            for part in self.manifest.parts:
                if part.identity in contents and part.kind == "library":
                    ops |= _load(part, contents[part.identity])
            self._ops = ops
        return dict(self._ops)

    def interpreter(self, model: str | None = None, **arguments: Any) -> Interpreter:
        """One for a model, with the bundle's ops; `arguments` are Interpreter's, and an op in
        `custom_ops` goes before the bundle's.
        """
        content = self.model(model)
        ops = {**self.registrations(), **(arguments.pop("custom_ops", None) or {})}
        return Interpreter(model_content=content, custom_ops=ops, **arguments)

    def close(self) -> None:
        """Overwrites what was decrypted, except for models that were handed out: interpreters
        read their weights there. Those are freed with the last of them.
        """
        if self._contents is not None:
            wipe(*(data for name, data in self._contents.items() if name not in self._lent))
        self._contents = self._ops = None

    def _open_contents(self) -> dict[str, Array]:
        if self._contents is None:
            raise BundleError("the bundle is closed")
        return self._contents

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        shown = self.manifest
        return f"<Bundle {shown.name} {shown.version}, release {shown.release}>"


def _used_here(part: Part) -> bool:
    return part.kind == "model" or part.platform == this_platform()


def _check_platform(manifest: Manifest) -> None:
    here = this_platform()
    for name, parts in manifest.libraries.items():
        has = [part.platform for part in parts]
        if here not in has:
            raise BundleWrongPlatform(
                f"the op library {name!r} is for {', '.join(has)}, and this machine is {here}"
            )


def _load(part: Part, content: Array) -> dict[str, Registration]:
    """Those ops of a library that the manifest names."""
    from ._table import ABI
    from .library import OpLibraryError, load_op_library

    if part.abi != ABI:
        raise BundleWrongPlatform(
            f"the op library {part.name!r} is built for ABI {part.abi}; this version has ABI {ABI}"
        )
    try:
        library = load_op_library(content.data)
    except OpLibraryError as error:
        raise BundleError(f"the op library {part.name!r} does not load: {error}") from error
    lacking = [op for op in part.ops if op not in library]
    if lacking:
        raise BundleError(
            f"the op library {part.name!r} registers no {', '.join(lacking)}; it has "
            f"{', '.join(library)}"
        )
    return {op: library[op] for op in part.ops}


def _find(op: PythonOp) -> Registration:
    """What an installed module has under that name; only what was made as an op is taken."""
    module, _, attribute = op.entry.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ImportError as error:
        raise BundleError(
            f"the op {op.op} is {op.entry}, which is not installed here: {error}"
        ) from error
    except AttributeError as error:
        raise BundleError(f"the op {op.op} is {op.entry}, which is not there: {error}") from error
    except Exception as error:
        raise BundleError(
            f"the op {op.op} is {op.entry}, whose import fails: {type(error).__name__}: {error}"
        ) from error
    if isinstance(found, CustomOp):
        return found.registration
    if not isinstance(found, Registration):
        raise BundleError(
            f"the op {op.op} is {op.entry}: neither a Registration nor a custom_op, but "
            f"{type(found).__name__}"
        )
    return found

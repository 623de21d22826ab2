"""A model and its op in one signed, encrypted file: made, inspected, opened, run, and refused.

    pip install 'litedelegate[bundle]'
    python examples/bundle.py

The op is `atan` of examples/atan.py, which has to be installed (here: importable) where the bundle
is opened. Keys are made in memory; `litedelegate bundle keygen` makes them as files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import atan

from litedelegate.customops.bundle import Bundle, BundleError, Key, ReleaseFile, inspect


def main() -> None:
    # whoever ships has the first, each machine the second; both give away their public parts
    signer, machine = Key.generate("signer"), Key.generate("recipient")
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "atan-1.ldb", Path(folder) / "atan-2.ldb"
        for release, path in enumerate((old, new), 1):
            Bundle.create(
                path,
                name="atan",
                release=release,
                signer=signer,
                readers=[machine.public()],
                models={"main": atan.make_model(offset=float(release))},
                python_ops={"Atan": "atan:atan"},
            )
        manifest = inspect(new).manifest  # no key is needed, and nothing is proven
        print(f"{new.name}: release {manifest.release}, models {', '.join(manifest.models)}")

        trusted, seen = [signer.public()], ReleaseFile(Path(folder) / "releases.json")
        with Bundle.open(new, key=machine, trusted=trusted, releases=seen) as bundle:
            print("y =", bundle.interpreter().run({"x": atan.X})["y"])

        altered = new.read_bytes()[:-1] + b"?"
        stranger = Key.generate("recipient")
        for source, key in ((old, machine), (altered, machine), (new, stranger)):
            try:
                Bundle.open(source, key=key, trusted=trusted, releases=seen)
            except BundleError as error:
                print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()

"""Op libraries in bundles: built here, loaded from memory, refused where they do not fit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import Keys, make, model

from litedelegate.customops import bundle_pack, include_dir
from litedelegate.customops.bundle import (
    Bundle,
    BundleError,
    BundleWrongPlatform,
    Library,
    inspect,
    this_platform,
)

X = np.array([-8, 0.5, 2, 2.2, 201], np.float32)


@pytest.fixture(scope="module")
def atan(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Atan example as a shared library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a C compiler on Linux is needed: only there libraries load from memory")
    path = tmp_path_factory.mktemp("library") / "atan.so"
    source = root / "examples" / "atan_c" / "atan.c"
    flags = ["-shared", "-fPIC", "-O1", f"-I{include_dir()}", "-o", path, source, "-lm"]
    subprocess.run([compiler, *map(str, flags)], check=True)
    return path


def bundle(path: Path, keys: Keys, **more: Any) -> Bundle:
    given: dict[str, Any] = {"models": {"main": model("Atan")}, "python_ops": {}}
    make(path, keys, **{**given, **more})
    return Bundle.open(path, key=keys.secret, trusted=[keys.signer.public()])


def test_the_library_of_this_platform_is_loaded(atan: Path, keys: Keys, tmp_path: Path) -> None:
    libraries = [
        Library("ops", this_platform(), atan, ("Atan",)),
        Library("ops", "sparc-solaris", b"for another machine", ("Atan",)),
    ]
    with bundle(tmp_path / "b.ldb", keys, libraries=libraries) as opened:
        assert len(opened.manifest.libraries["ops"]) == 2
        content = opened._open_contents()[f"library ops {this_platform()}"]
        interpreter = opened.interpreter()
        other = opened.interpreter()
    assert bytes(content) == bytes(len(content))
    for each in (interpreter, other):
        np.testing.assert_allclose(each.run({"x": X})["y"], np.arctan(X), rtol=1e-6)
        each.close()


def test_what_opens_does_not_load_it(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [Library("ops", this_platform(), b"\x7fELF, no more", ("Atan",))]
    monkeypatch.setattr(bundle_pack, "_check_library", lambda *_: None)  # packed elsewhere
    opened = bundle(tmp_path / "b.ldb", keys, libraries=libraries)
    with opened, pytest.raises(BundleError, match=r"'ops' does not load: .* no shared library"):
        opened.interpreter()


def test_libraries_that_do_not_fit(atan: Path, keys: Keys, tmp_path: Path) -> None:
    lacks = Library("ops", this_platform(), atan, ("Atan", "Tan"))
    opened = bundle(tmp_path / "b.ldb", keys, libraries=[lacks])
    with opened, pytest.raises(BundleError, match="registers no Tan; it has Atan"):
        opened.interpreter()
    old = Library("ops", this_platform(), atan, ("Atan",), abi=99)
    opened = bundle(tmp_path / "b.ldb", keys, libraries=[old])
    with (
        opened,
        pytest.raises(BundleWrongPlatform, match="is built for ABI 99; this version has ABI"),
    ):
        opened.interpreter()
    away = Library("ops", "windows-aarch64", atan, ("Atan",))
    with pytest.raises(BundleWrongPlatform, match="'ops' is for aarch64-windows-gnu, and this"):
        bundle(tmp_path / "b.ldb", keys, libraries=[away])
    assert inspect(tmp_path / "b.ldb").manifest.libraries["ops"][0].abi == 1

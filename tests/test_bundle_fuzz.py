"""Damaged and forged bundles: one kind of exception, and nothing executed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from bundles import Keys, make
from hypothesis import given, settings
from hypothesis import strategies as st

from litedelegate.customops.bundle import Bundle, BundleError
from litedelegate.customops.bundle_format import MAGIC, PREAMBLE, decode_manifest, read_envelope


@pytest.fixture(scope="module")
def data(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "b.ldb"
    make(path, keys)
    return path.read_bytes()


def mutate_bundle(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    path = root / "benchmarks" / "mutate_bundle.py"
    spec = importlib.util.spec_from_file_location("mutate_bundle", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_thousands_of_mutations(root: Path) -> None:
    """In a process of its own: it limits memory and listens to what Python does."""
    pytest.importorskip("resource", reason="no limit of memory on this system")
    command = [sys.executable, str(root / "benchmarks" / "mutate_bundle.py"), "--count", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3000 cases" in done.stdout and "no fault" in done.stdout


def test_the_mutations_get_past_the_signature_and_faults_are_heard(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("resource", reason="no limit of memory on this system")
    module = mutate_bundle(root, monkeypatch)
    watch = module.Watch()
    watch.on = True
    exec("1 + 1")
    watch.on = False
    assert any(event.startswith("exec") for event in watch.heard)
    victim = module.Victim()
    victim.contents = {}
    with pytest.raises(AssertionError, match="is not what was packed"):
        victim.try_case(victim.data, victim.secret)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes(keys: Keys, content: bytes) -> None:
    for start in (
        b"",
        MAGIC,
        PREAMBLE.pack(MAGIC, 1, 50, 120 + len(content), bytes(32), bytes(64)),
    ):
        with pytest.raises(BundleError):
            Bundle.open(start + content, key=keys.secret, trusted=[keys.signer])


@given(st.data())
@settings(max_examples=300)
def test_any_change(keys: Keys, data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(at, min(len(data), at + 40)))
    changed = data[:at] + draw.draw(st.binary(max_size=40)) + data[end:]
    if changed == data:
        return
    with pytest.raises(BundleError):
        Bundle.open(changed, key=keys.secret, trusted=[keys.signer])


@given(st.text(max_size=200) | st.binary(max_size=200))
@settings(max_examples=300)
def test_any_manifest(data: bytes, text: str | bytes) -> None:
    given = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    with pytest.raises(BundleError):
        decode_manifest(given)
    assert decode_manifest(read_envelope(data).manifest_bytes).name == "small"

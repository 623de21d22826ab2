"""Bundles: what goes in comes out, and everything that can be wrong is one clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import bundles
import numpy as np
import pytest
from bundles import Keys, forge, make, model, with_content, zstandard

from litedelegate.customops import bundle as bundle_module
from litedelegate.customops import bundle_format
from litedelegate.customops.bundle import (
    Bundle,
    BundleAltered,
    BundleError,
    BundleOutdated,
    BundleTooLarge,
    BundleTruncated,
    BundleWrongKey,
    BundleWrongPlatform,
    BundleWrongSigner,
    Key,
    Library,
    ReleaseFile,
    inspect,
    this_platform,
    verify,
)
from litedelegate.customops.bundle_crypto import PartCipher, unwrap
from litedelegate.customops.bundle_format import read_envelope


@pytest.fixture
def path(tmp_path: Path, keys: Keys) -> Path:
    path = tmp_path / "small.ldb"
    make(path, keys)
    return path


def opened(source: Any, keys: Keys, **more: Any) -> Bundle:
    given: dict[str, Any] = {"key": keys.secret, "trusted": [keys.signer.public()]}
    return Bundle.open(source, **{**given, **more})


# -- what goes in comes out


@pytest.mark.parametrize("cipher", bundle_format.CIPHERS)
@pytest.mark.parametrize("which", ["reader", "secret", "words"])
def test_every_key_opens_it(tmp_path: Path, keys: Keys, cipher: str, which: str) -> None:
    path = tmp_path / "b.ldb"
    make(path, keys, cipher=cipher)
    with opened(path, keys, key=getattr(keys, which)) as bundle:
        got = bundle.interpreter().run({"x": bundles.X})["y"]
    np.testing.assert_array_equal(got, bundles.X / 2)


def test_keys_come_from_callbacks_environment_and_files(
    path: Path, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.reader.save(tmp_path / "key")
    monkeypatch.setenv("LINE", keys.secret.text())
    monkeypatch.setenv("WORDS", "correct horse")
    made = Key.from_file(tmp_path / "key")
    for key in (Key.from_env("LINE"), Key.from_env("WORDS"), made, bytes(keys.secret.material)):
        assert opened(path, keys, key=key).models == ["main"]

    def ask(manifest: bundle_format.Manifest) -> Key:
        assert (manifest.name, manifest.release) == ("small", 5)
        return made

    opened(path, keys, key=ask)
    with pytest.raises(BundleWrongKey, match="this recipient key was wiped"):
        made.text()  # what a function gives is wiped after use
    if sys.platform != "win32":
        assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    with pytest.raises(BundleError, match="the key is not written"):
        keys.reader.save(tmp_path / "key")


@pytest.mark.parametrize("size", [0, 4096 - 1, 3 * 4096, 50_000])
@pytest.mark.parametrize("zeros", [True, False])
def test_sizes_and_chunks(tmp_path: Path, keys: Keys, size: int, zeros: bool) -> None:
    content = model(zeros=size) if zeros else model(noise=size)
    path = tmp_path / "b.ldb"
    manifest = make(path, keys, models={"a": content, "b": model("Other")}, chunk=4096)
    assert manifest.parts[0].compression == ("zstd" if zeros or not size else "none")
    with opened(path, keys) as bundle:
        assert bytes(bundle.model("a")) == content
        with pytest.raises(BundleError, match="which model\\? The bundle has: a, b"):
            bundle.interpreter()
        with pytest.raises(BundleError, match="has no model 'c'; it has: a, b"):
            bundle.interpreter("c")


def test_what_packs_too_well_is_stored_as_it_is(tmp_path: Path, keys: Keys) -> None:
    content = model(zeros=1 << 22)
    manifest = make(tmp_path / "b.ldb", keys, models={"main": content})
    assert manifest.parts[0].compression == "none"
    assert bytes(opened(tmp_path / "b.ldb", keys).model()) == content


def test_the_callers_ops_go_first_and_the_bundles_are_taken(path: Path, keys: Keys) -> None:
    with opened(path, keys) as bundle:
        other = bundle.interpreter(custom_ops={"Half": lambda x: x + 1}, num_threads=1)
        np.testing.assert_array_equal(other.run({"x": bundles.X})["y"], bundles.X + 1)


def test_close_overwrites_what_was_not_handed_out(tmp_path: Path, keys: Keys) -> None:
    make(tmp_path / "b.ldb", keys, models={"a": model(), "b": model("Other")})
    bundle = opened(tmp_path / "b.ldb", keys)
    contents = bundle._contents
    assert contents is not None
    interpreter = bundle.interpreter("a")
    a, b = contents["model a "], contents["model b "]
    bundle.close()
    assert bytes(a) == model() and bytes(b) == bytes(len(b))
    np.testing.assert_array_equal(interpreter.run({"x": bundles.X})["y"], bundles.X / 2)
    with pytest.raises(BundleError, match="the bundle is closed"):
        bundle.interpreter("a")


def test_the_manifest_tells_all_without_a_key(path: Path, keys: Keys) -> None:
    envelope, manifest = inspect(path)
    assert envelope.signer == keys.signer.public().material
    assert (manifest.models, manifest.release) == (["main"], 5)
    assert [(o.op, o.entry) for o in manifest.python_ops] == [("Half", "bundles:half")]
    part = manifest.parts[0]
    assert part.size == len(model()) and part.stored == part.packed + 20
    assert bundles.SECRET not in path.read_bytes()


# -- what can be wrong


def test_every_truncation_is_refused(path: Path, keys: Keys) -> None:
    data = path.read_bytes()
    for n in range(8, len(data)):
        with pytest.raises(BundleTruncated, match="cut off"):
            opened(data[:n], keys)
    with pytest.raises(BundleTruncated, match="too long: it says that it has"):
        opened(data + b"\0", keys)
    for other in (b"", b"PK\x03\x04", b"\x1cTFL3"):
        with pytest.raises(BundleAltered, match="no litedelegate bundle"):
            opened(other, keys)


def test_files_that_are_none(keys: Keys, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(BundleAltered, match="no litedelegate bundle"):
        opened(tmp_path / "empty", keys)
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(BundleError, match="cannot be read"):
            opened(path, keys)


def test_every_altered_byte_is_refused(path: Path, keys: Keys) -> None:
    data = bytearray(path.read_bytes())
    for i in range(len(data)):
        data[i] ^= 1
        with pytest.raises(BundleError):
            opened(bytes(data), keys)
        data[i] ^= 1
    assert opened(bytes(data), keys).models == ["main"]


def test_altered_parts_are_named(path: Path, keys: Keys) -> None:
    data = path.read_bytes()
    with pytest.raises(BundleAltered, match="the model 'main' was altered: its SHA-256"):
        opened(data[:-1] + bytes([data[-1] ^ 1]), keys)
    with pytest.raises(BundleAltered, match="its signature does not hold"):
        verify(data[:130] + b"~" + data[131:], trusted=[keys.signer.public()])


def test_wrong_keys(path: Path, keys: Keys) -> None:
    for kind in ("recipient", "secret"):
        with pytest.raises(BundleWrongKey, match="does not open the bundle; it takes: passphrase"):
            opened(path, keys, key=Key.generate(kind))
    with pytest.raises(BundleWrongKey, match="this passphrase key does not open"):
        opened(path, keys, key=Key.passphrase("battery staple"))
    with pytest.raises(BundleWrongKey, match="a signer key opens nothing"):
        opened(path, keys, key=keys.signer)
    with pytest.raises(BundleWrongKey, match="a secret key has 32 bytes, not 5"):
        opened(path, keys, key=b"short")
    for text in ("", "x y z", "litedelegate-key secret !!!", "litedelegate-key secret AAAA"):
        with pytest.raises(BundleWrongKey):
            Key.parse(text)


def test_wrong_signers(path: Path, keys: Keys) -> None:
    other = Key.generate("signer").public()
    with pytest.raises(BundleWrongSigner, match=r"the bundle is signed by [0-9a-f]{16}; trusted"):
        opened(path, keys, trusted=[other])
    assert opened(path, keys, trusted=[other, keys.signer.public()]).models == ["main"]
    with pytest.raises(BundleError, match="no signer is trusted"):
        opened(path, keys, trusted=[])
    with pytest.raises(BundleError, match="a recipient-public key signs nothing"):
        opened(path, keys, trusted=[keys.reader.public()])
    with pytest.raises(BundleWrongSigner, match="the signer's bundle 'small', not 'large'"):
        opened(path, keys, name="large")


def test_the_signer_is_checked_before_the_manifest_is_read(
    path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(text: bytes) -> None:
        raise AssertionError("the manifest was parsed")

    monkeypatch.setattr(bundle_format, "decode_manifest", parse)
    with pytest.raises(BundleWrongSigner):
        opened(path, keys, trusted=[Key.generate("signer").public()])
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    with pytest.raises(BundleAltered, match="signature"):
        opened(bytes(data), keys)


def test_older_releases_are_refused(path: Path, keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(BundleOutdated, match="release 5 of 'small', and 6 is the oldest"):
        opened(path, keys, minimum_release=6)
    seen = ReleaseFile(tmp_path / "releases.json")
    opened(path, keys, releases=seen)
    new = tmp_path / "new.ldb"
    make(new, keys, release=6)
    with pytest.raises(BundleWrongKey):
        opened(new, keys, releases=seen, key=bytes(32))
    opened(path, keys, releases=seen)  # one that did not open counts for nothing
    opened(new, keys, releases=seen)
    with pytest.raises(BundleOutdated, match="somebody may be replaying an old bundle"):
        opened(path, keys, releases=seen)
    make(tmp_path / "other.ldb", keys, name="other", release=1)
    opened(tmp_path / "other.ldb", keys, releases=seen)
    assert sorted(seen.values()) == [1, 6]
    (tmp_path / "releases.json").write_text("{")
    with pytest.raises(BundleError, match="the list of releases"):
        opened(new, keys, releases=seen)


def test_a_list_of_releases_is_changed_by_one_at_a_time(tmp_path: Path) -> None:
    """Also by processes: what one forgets, another could be made to take again."""
    path = tmp_path / "releases.json"
    code = (
        "import sys; from litedelegate.customops.bundle import ReleaseFile\n"
        "for i in range(20): ReleaseFile(sys.argv[1])[f'{sys.argv[2]}/{i}'] = i"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    others = [
        subprocess.Popen([sys.executable, "-c", code, path, str(n)], env=environment)
        for n in range(2 if sys.platform != "win32" else 0)
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ReleaseFile(path).raise_to("same", n), range(40)))
    assert [other.wait() for other in others] == [0] * len(others)
    seen = ReleaseFile(path)
    assert seen["same"] == 39 and len(seen) == 1 + 20 * len(others)
    seen.raise_to("same", 3)
    assert seen["same"] == 39
    assert [p.name for p in tmp_path.iterdir()] == ["releases.json"]


def test_a_release_that_cannot_be_noted_opens_nothing(
    path: Path, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiped: list[Any] = []
    monkeypatch.setattr(bundle_module, "wipe", lambda *contents: wiped.extend(contents))
    with pytest.raises(BundleError, match="the list of releases is not written"):
        opened(path, keys, releases=ReleaseFile(tmp_path / "none" / "releases.json"))
    assert [bytes(w[4:8]) for w in wiped] == [b"TFL3"]


def test_bombs(path: Path, keys: Keys) -> None:
    data = path.read_bytes()
    squeezed = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 28))
    assert len(squeezed) < 20_000
    with pytest.raises(BundleTooLarge, match="unpacks to more than the bytes it declares"):
        opened(with_content(data, keys, squeezed, size=1000, compression="zstd"), keys)
    zeros = path.with_name("zeros.ldb")
    make(zeros, keys, models={"main": model(zeros=100_000)})
    whole = zstandard.ZstdCompressor().compress(bytes(1 << 18))
    with pytest.raises(BundleTooLarge, match="more than 1000 to 1 is refused"):
        opened(with_content(data, keys, whole, size=1 << 18, compression="zstd"), keys)
    with pytest.raises(
        BundleTooLarge, match=r"unpacks to 100\d\d\d bytes, and at most 100000 are allowed \(max_b"
    ):
        opened(zeros.read_bytes(), keys, max_bytes=100_000)
    for source in (data, path):
        with pytest.raises(BundleTooLarge, match=r"bytes, and 100 are allowed \(max_bytes\)"):
            opened(source, keys, max_bytes=100)
    with pytest.raises(BundleTooLarge, match="scrypt numbers are beyond what is allowed"):
        key = replace(inspect(data).manifest.keys[2], n=1 << 30)
        opened(forge(data, keys, lambda m: replace(m, keys=(key,))), keys)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000))
    with pytest.raises(BundleError, match="unpacks to more than the bytes it declares"):
        opened(with_content(data, keys, unsized, size=999, compression="zstd"), keys)


def test_a_bomb_takes_no_memory(path: Path, keys: Keys, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="no limit of memory on this system")
    squeezed = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 30))
    bomb = with_content(path.read_bytes(), keys, squeezed, size=1000, compression="zstd")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BundleTooLarge):
        opened(bomb, keys)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000 * (1024 if sys.platform == "darwin" else 1)


def test_content_that_does_not_unpack(path: Path, keys: Keys) -> None:
    data = path.read_bytes()
    nine = zstandard.ZstdCompressor().compress(bytes(9))
    for packed in (b"no zstd", nine * 2, nine[:-1], b"", nine[:5]):
        with pytest.raises(BundleError, match=r"does not unpack|(bytes|size) it declares"):
            opened(with_content(data, keys, packed, size=9, compression="zstd"), keys)
    with pytest.raises(BundleAltered, match="not of the size it declares"):
        opened(with_content(data, keys, nine, size=10, compression="zstd"), keys)
    with pytest.raises(BundleAltered, match="the sizes of 'main' disagree"):
        opened(with_content(data, keys, nine, nine, size=18, compression="zstd"), keys)


def test_chunks_left_out_repeated_or_moved_do_not_decrypt() -> None:
    def cipher(salt: int = 0, part: str = "p") -> PartCipher:
        return PartCipher("chacha20-poly1305", bytearray(32), bytes([salt]) * 32, part)

    def read(stored: bytes, most: int = 5, cipher: PartCipher = cipher()) -> list[bytes]:  # noqa: B008
        room = memoryview(bytearray(most))
        return [
            bytes(room[: cipher.decrypt(*chunk, room)])
            for chunk in cipher.split(memoryview(stored), most)
        ]

    a, b, c = cipher().encrypt([b"one", b"two", b"three"])
    assert read(a + b + c) == [b"one", b"two", b"three"]
    for wrong in (a + b, b + a + c, a + c, a + a + b + c, a + b + c + c, c, a):
        with pytest.raises(BundleAltered, match="of a part does not decrypt"):
            read(wrong)
    for wrong in (a + b + c[:-1], a + b + c + b"\0", a + bytes(4) + c, a + b"\xff" * 9):
        with pytest.raises(BundleAltered, match=r"impossible length|does not decrypt"):
            read(wrong)
    with pytest.raises(BundleAltered, match="chunk 2 of a part has an impossible length"):
        read(a + b + c, 4)
    for other in (cipher(salt=1), cipher(part="q")):
        with pytest.raises(BundleAltered, match="does not decrypt"):
            read(a + b + c, cipher=other)


def test_manifests_that_do_not_hold(path: Path, keys: Keys) -> None:
    data = path.read_bytes()
    part = inspect(data).manifest.parts[0]
    for change in (
        {"release": -1},
        {"name": "../up"},
        {"cipher": "rot13"},
        {"chunk": 1},
        {"keys": ()},
        {"version": "line\nbreak"},
        {"parts": (part, part)},
        {"parts": (replace(part, kind="pickle"),)},
        {"parts": (replace(part, stored=part.stored + 1),)},
        {"parts": (replace(part, ops=("Half",)),)},
        {"python_ops": (bundle_format.PythonOp("Half", "os.system('x'):y"),)},
    ):
        with pytest.raises(BundleAltered):
            opened(forge(data, keys, lambda m, c=change: replace(m, **c)), keys)  # type: ignore[misc]
    for text in (b"[]", b"{}", b"[" * 100_000, b'{"a":NaN}', b'"\\ud800"', b"\xff"):
        with pytest.raises(BundleAltered):
            bundle_format.decode_manifest(text)
    text = inspect(data).manifest.encode()
    for other in (
        text.replace(b":", b": ", 1),
        text.replace(b'{"chunk"', b'{"chunk":1,"chunk"', 1),
    ):
        with pytest.raises(BundleAltered, match="not in canonical form"):
            bundle_format.decode_manifest(other)
    unknown = json.dumps({**json.loads(text), "z": 1}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(BundleAltered, match="no Manifest where one goes"):
        bundle_format.decode_manifest(unknown.encode())


def test_another_format_is_named(path: Path, keys: Keys) -> None:
    data = bytearray(path.read_bytes())
    data[8] = 2
    with pytest.raises(BundleError, match="the bundle has format 2; this version"):
        opened(bytes(data), keys)


# -- ops


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("no_such_module_here:op", "which is not installed here"),
        ("bundles:no_such_op", "which is not there"),
        ("bundles:not_an_op", "neither a Registration nor a custom_op"),
        ("os:system", "neither a Registration nor a custom_op"),
        ("module_that_fails:op", "whose import fails: ZeroDivisionError: by its own fault"),
    ],
)
def test_ops_that_are_not_there(
    tmp_path: Path, keys: Keys, entry: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "module_that_fails.py"
    failing.write_text("raise ZeroDivisionError('by its own fault')")
    monkeypatch.syspath_prepend(str(tmp_path))
    make(tmp_path / "b.ldb", keys, python_ops={"Half": entry})
    with opened(tmp_path / "b.ldb", keys) as bundle, pytest.raises(BundleError, match=text):
        bundle.interpreter()


def test_a_library_for_another_platform_is_refused(tmp_path: Path, keys: Keys) -> None:
    library = Library("ops", "sparc-solaris", b"\x7fELF", ("Half",))
    manifest = make(tmp_path / "b.ldb", keys, libraries=[library], python_ops={})
    assert manifest.parts[1].ops == ("Half",)
    with pytest.raises(BundleWrongPlatform, match="is for sparc-solaris, and this machine is"):
        opened(tmp_path / "b.ldb", keys)


# -- making


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"readers": []}, "nobody could open the bundle"),
        ({"models": {"m": b"no model"}}, "the model 'm' is not valid"),
        ({"models": {"m": Path("none.tflite")}}, "none.tflite cannot be read"),
        ({"models": {"a/b": model()}}, "is no name"),
        ({"level": 22}, "compression level 22"),
        ({"cipher": "none"}, "no such cipher"),
        ({"release": -1}, "release"),
        ({"model_versions": {"z": "2"}}, "not packed: z"),
        ({"python_ops": {"A": "no entry"}}, "no entry point like"),
        ({"models": {"m": "a\0b"}}, "cannot be read: embedded null"),
        ({"models": {}, "python_ops": {}}, "nothing to pack"),
        ({"libraries": [Library("l", "linux", b"", ("A",))]}, "no platform like"),
        ({"libraries": [Library("l", this_platform(), b"", "Atan")]}, "a list of names"),
        ({"libraries": [Library("l", this_platform(), b"", ("A",))]}, "is no shared library"),
        (
            {"libraries": [Library(n, "sparc-solaris", b"", ("A",)) for n in "lm"]},
            "ops of the same name: A for sparc-solaris",
        ),
        (
            {"libraries": [Library("l", "sparc-solaris", b"", ("Half",))]},
            "ops of the same name: Half",
        ),
        ({"libraries": [Library("l", "x86_64-linux-gnu", b"", ())]}, "registers no op"),
    ],
)
def test_what_is_not_packed(tmp_path: Path, keys: Keys, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(BundleError, match=text):
        make(tmp_path / "b.ldb", keys, **wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX's")
def test_a_bundle_is_written_as_the_user_has_it(tmp_path: Path, keys: Keys) -> None:
    """By the umask, over a bundle with its mode, and through a link."""
    path = tmp_path / "b.ldb"
    before = os.umask(0o077)
    try:
        make(path, keys)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        make(path, keys)
        assert path.stat().st_mode & 0o777 == 0o640
        os.umask(0o027)
        make(tmp_path / "c.ldb", keys)
        assert (tmp_path / "c.ldb").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = tmp_path / "link.ldb"
    link.symlink_to(folder / "real.ldb")
    make(link, keys)
    assert link.is_symlink() and opened(folder / "real.ldb", keys)
    make(link, keys)
    assert link.is_symlink() and [p.name for p in folder.iterdir()] == ["real.ldb"]


def test_only_signers_sign_and_only_readers_read(tmp_path: Path, keys: Keys) -> None:
    with pytest.raises(BundleError, match="a secret key has no public part"):
        make(tmp_path / "b.ldb", keys, signer=keys.secret)
    with pytest.raises(BundleWrongKey, match="a signer key encrypts nothing"):
        make(tmp_path / "b.ldb", keys, readers=[keys.signer])
    assert not list(tmp_path.iterdir())


def test_keys_show_nothing(keys: Keys) -> None:
    for key in keys:
        assert repr(key) == f"<Key {key.kind} …>"
    with Key("secret", b"k" * 32) as key:
        material = key.material
    assert material == bytes(32)
    assert keys.signer.public().text() in Key.parse(keys.signer.public().text()).text()


def test_without_the_extra_one_sentence(root: Path) -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "try:\n import litedelegate.customops.bundle\n"
        "except ImportError as e: print(e)"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "pip install 'litedelegate[bundle]'" in done.stdout


def test_what_another_reader_altered_is_not_given_out(tmp_path: Path, keys: Keys) -> None:
    """Whoever can open a bundle knows its content key and can encrypt something else properly: it
    decrypts, but has not the digest that the signer signed.
    """
    path = tmp_path / "b.ldb"
    make(path, keys, models={"main": model(noise=100_000)})  # which does not pack
    envelope = read_envelope(path.read_bytes())
    manifest = envelope.manifest()
    ((part, stored),) = envelope.stored(manifest)
    assert part.compression == "none"
    content = bytearray(opened(path, keys).model())
    content[-1] ^= 1
    key, salt = unwrap(manifest.keys, keys.secret), bytes.fromhex(part.salt)
    altered = b"".join(
        PartCipher(manifest.cipher, key, salt, part.identity).encrypt([bytes(content)])
    )
    forged = path.read_bytes().replace(bytes(stored), altered)
    assert forged != path.read_bytes()
    with pytest.raises(BundleAltered, match=r"was altered: its SHA-256 is not the signed one"):
        opened(forged, keys)

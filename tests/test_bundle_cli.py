"""`litedelegate bundle`, called as a person calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from bundles import SECRET, X, model
from c_libraries import built

from litedelegate.cli import main
from litedelegate.customops.platforms import this_platform


class Result(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as end:
            main(["bundle", *map(str, arguments)], prog_name="litedelegate")
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        assert SECRET.decode() not in captured.out + captured.err
        return Result(end.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The same in a folder with keys and b.ldb."""
    monkeypatch.setenv("WORDS", "correct horse")
    (tmp_path / "m.tflite").write_bytes(model())
    np.save(tmp_path / "x.npy", X)
    for kind in ("signer", "recipient", "secret"):
        assert cli("keygen", kind, f"{kind}.key").code == 0
    arguments = ["--name", "small", "--release", 3, "--signer", "signer.key"]
    for reader in ("recipient.key.pub", "file:secret.key", "env:WORDS"):
        arguments += ["--reader", reader]
    arguments += ["--model", "m.tflite", "--python-op", "Half=bundles:half"]
    got = cli("create", "b.ldb", *arguments)
    assert (got.code, got.err) == (0, "")
    assert got.out.startswith("b.ldb written: small 1, release 3, ")
    return cli


@pytest.mark.parametrize("there", ["k.key", "k.key.pub"])
def test_keygen_writes_both_or_none(cli: Cli, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("precious")
    got = cli("keygen", "signer", "k.key")
    assert got.code == 1 and f"File exists: '{there}'" in got.err
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(there, "precious")]


TRUST = ("--trusted", "signer.key.pub")


@pytest.mark.parametrize("key", ["recipient.key", "secret.key", "env:WORDS"])
def test_run(made: Cli, tmp_path: Path, key: str) -> None:
    files = {p.name for p in tmp_path.iterdir()}
    got = made("run", "b.ldb", "--key", key, *TRUST, "-i", "x.npy", "--json")
    assert (got.code, got.err) == (0, "")
    result = json.loads(got.out)
    assert result["model"] == "b.ldb"
    assert result["outputs"]["y"]["values"] == pytest.approx((X / 2).tolist())
    assert {p.name for p in tmp_path.iterdir()} == files


def test_inspect_and_verify(made: Cli, tmp_path: Path) -> None:
    got = made("inspect", "b.ldb")
    for text in ("small", "signer-public", "not checked", "recipient", "m", "bundles:half"):
        assert text in got.out
    values: dict[str, Any] = json.loads(made("inspect", "b.ldb", "--json").out)
    assert (values["release"], values["parts"][0]["size"]) == (3, len(model()))
    assert values["signer"] == (tmp_path / "signer.key.pub").read_text().strip()
    got = made("verify", "b.ldb", *TRUST)
    assert (got.code, got.out) == (0, "b.ldb is whole: small, release 3\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("verify", "b.ldb", "--trusted", "signer.key.pub", "--minimum-release", 4), 1, "and 4 is"),
        (("verify", "b.ldb", "--trusted", "recipient.key.pub"), 1, "signs nothing"),
        (("verify", "b.ldb", *TRUST, "--name", "other"), 1, "not 'other'"),
        (("verify", "m.tflite", *TRUST), 1, "no litedelegate bundle"),
        (("verify", "b.ldb"), 2, "--trusted"),
        (("verify", "none.ldb", *TRUST), 2, "does not exist"),
        (("run", "b.ldb", "--key", "none.key", *TRUST), 1, "cannot be read"),
        (("run", "b.ldb", "--key", "env:NOT_SET_HERE", *TRUST), 1, "holds no key"),
        (("run", "b.ldb", "--key", "signer.key", *TRUST), 1, "opens nothing"),
        (("run", "b.ldb", "--key", "secret.key", *TRUST, "--model", "z"), 1, "no model 'z'"),
        (("run", "b.ldb", "--key", "secret.key", *TRUST), 2, "no source for input 'x'"),
        (("fetch", "http://example.com/b", "c.ldb", *TRUST), 1, "plain HTTP"),
        (("fetch", "http://127.0.0.1:9/b", "c.ldb", *TRUST, "--tries", 1), 1, "not downloaded"),
        (("keygen", "signer", "signer.key"), 1, "the key is not written"),
    ],
)
def test_errors(made: Cli, arguments: tuple[object, ...], code: int, text: str) -> None:
    got = made(*arguments)
    assert (got.code, got.out) == (code, "")
    assert text in got.err and "Traceback" not in got.err


def test_releases_are_kept(made: Cli, tmp_path: Path) -> None:
    run = ("run", "b.ldb", "--key", "secret.key", *TRUST, "--releases", "seen.json", "-i", "zeros")
    assert made(*run).code == 0
    seen = json.loads((tmp_path / "seen.json").read_text())
    (tmp_path / "seen.json").write_text(json.dumps(dict.fromkeys(seen, 9)))
    got = made(*run)
    assert got.code == 1 and "release 3 of 'small', and 9 is the oldest" in got.err


def test_a_library_for_each_platform(cli: Cli, root: Path, tmp_path: Path) -> None:
    """`op build` makes it, under the name of its platform it is packed, and from memory it runs."""
    if sys.platform != "linux":
        pytest.skip("only Linux loads a library from memory")
    library = built("examples/atan_c/atan.c")
    (tmp_path / "m.tflite").write_bytes(model("Atan"))
    np.save(tmp_path / "x.npy", X)
    assert cli("keygen", "signer", "signer.key").code == cli("keygen", "secret", "s.key").code == 0
    machine, _, system = this_platform().partition("-")
    spelled = f"{system.partition('-')[0]}-{machine}"  # the same, as older builds have named it
    arguments = ["--name", "b", "--signer", "signer.key", "--reader", "file:s.key"]
    arguments += ["--model", "m.tflite", "--library", f"ops:{spelled}:Atan={library}"]
    other = ["--library", "ops:aarch64-macos:Atan=m.tflite"]
    assert cli("create", "b.ldb", *arguments, *other).code == 0
    parts = json.loads(cli("inspect", "b.ldb", "--json").out)["parts"]
    platforms = [p["platform"] for p in parts if p["kind"] == "library"]
    assert platforms == [this_platform(), "aarch64-macos"]
    assert "Atan" in cli("inspect", "b.ldb").out
    got = cli("run", "b.ldb", "--key", "s.key", *TRUST, "-i", "x.npy", "--json")
    assert (got.code, got.err) == (0, "")
    values = json.loads(got.out)["outputs"]["y"]["values"]
    np.testing.assert_allclose(values, np.arctan(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("library", "text"),
    [
        ("ops:x86_64-linux-gnu:Atan", "it takes NAME=VALUE"),
        ("ops:Linux X:Atan=m.tflite", "no platform like x86_64-linux-gnu"),
        ("ops:x86_64-linux-gnu=m.tflite", "registers no op"),
        ("ops:x86_64-linux-gnu:Atan=none.so", "cannot be read"),
    ],
)
def test_libraries_that_do_not_fit(made: Cli, library: str, text: str) -> None:
    keys = ("--signer", "signer.key", "--reader", "file:secret.key")
    got = made("create", "c.ldb", "--name", "c", *keys, "--library", library)
    assert got.code != 0 and text in got.err and "Traceback" not in got.err
    assert not Path("c.ldb").exists()

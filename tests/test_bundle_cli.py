"""`litedelegate bundle`, called as a person calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from bundles import SECRET, X, model

from litedelegate.cli import main


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

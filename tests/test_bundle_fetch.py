"""Delivery end to end against a server that breaks off, sends a wrong file and an old one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bundles
import numpy as np
import pytest
from bundle_server import Server, running
from bundles import Keys

from litedelegate.customops.bundle import (
    Bundle,
    BundleAltered,
    BundleError,
    BundleOutdated,
    BundleTooLarge,
    BundleWrongSigner,
    Key,
    fetch,
)
from litedelegate.customops.bundle_fetch import check_url, shown


@pytest.fixture
def server() -> Iterator[Server]:
    with running(Server()) as server:
        yield server


def get(server: Server, path: Path, keys: Keys, **more: Any) -> Path:
    given: dict[str, Any] = {"trusted": [keys.signer.public()], "pause": 0.01, "timeout": 5}
    return fetch(server.url, path, **{**given, **more})


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_from_the_server_to_a_running_model(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    server.content, server.breaks = packed, [100_000, 150_000]
    seen: list[tuple[int, int | None]] = []
    path = get(server, tmp_path / "b.ldb", keys, progress=lambda *now: seen.append(now))
    assert path.read_bytes() == packed
    assert server.asked == [None, "bytes=100000-", "bytes=250000-"]
    assert [n for n, _ in seen] == sorted({n for n, _ in seen})
    assert seen[-1] == (len(packed), len(packed))
    assert leftovers(tmp_path) == ["b.ldb"]
    with Bundle.open(path, key=keys.reader, trusted=[keys.signer.public()]) as bundle:
        got = bundle.interpreter().run({"x": bundles.X})["y"]
    np.testing.assert_array_equal(got, bundles.X / 2)


def test_the_next_call_goes_on(server: Server, keys: Keys, packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "b.ldb"
    server.content, server.breaks = packed, [100_000]
    with pytest.raises(BundleError, match=r"broke after 100000 of .* What arrived is kept") as got:
        get(server, path, keys, tries=1)
    assert "hidden" not in str(got.value)
    assert leftovers(tmp_path) == ["b.ldb.part", "b.ldb.part.json"]
    assert b"hidden" not in (tmp_path / "b.ldb.part.json").read_bytes()
    assert get(server, path, keys).read_bytes() == packed
    assert server.asked == [None, "bytes=100000-"]


@pytest.mark.parametrize("why", ["changed", "no ranges", "no etag", "weak etag"])
def test_it_begins_anew(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path, why: str
) -> None:
    server.content, server.breaks = bytes(len(packed)), [100_000]
    server.etag = {"no etag": None, "weak etag": 'W/"one"'}.get(why, '"one"')
    with pytest.raises(BundleError):
        get(server, tmp_path / "b.ldb", keys, tries=1)
    server.content = packed
    if why == "changed":
        server.etag = '"two"'
    server.ranges = why != "no ranges"
    assert get(server, tmp_path / "b.ldb", keys).read_bytes() == packed
    resumes = why in ("changed", "no ranges")
    assert server.asked[1:] == ["bytes=100000-" if resumes else None]


def test_a_whole_part_or_a_shorter_file_begins_anew(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    server.content, server.breaks = packed + bytes(9), [len(packed) + 5]
    with pytest.raises(BundleError):
        get(server, tmp_path / "b.ldb", keys, tries=1)
    server.content = packed
    assert get(server, tmp_path / "b.ldb", keys).read_bytes() == packed


def test_a_wrong_file_never_takes_its_place(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "b.ldb"
    path.write_bytes(b"what was there")
    for content, error, text in (
        (b"<html>not found</html>", BundleAltered, "no litedelegate bundle"),
        (packed[:-1] + b"~", BundleAltered, "was altered"),
        (packed[:150] + b"~~" + packed[152:], BundleAltered, "signature"),
    ):
        server.content = content
        with pytest.raises(error, match=text):
            get(server, path, keys)
        assert leftovers(tmp_path) == ["b.ldb"] and path.read_bytes() == b"what was there"
    server.content = packed
    with pytest.raises(BundleAltered, match="a wrong file was downloaded: its SHA-256"):
        get(server, path, keys, sha256="0" * 64)
    with pytest.raises(BundleWrongSigner):
        get(server, path, keys, trusted=[Key.generate("signer").public()])
    assert leftovers(tmp_path) == ["b.ldb"] and path.read_bytes() == b"what was there"
    digest = hashlib.sha256(packed).hexdigest()
    assert get(server, path, keys, trusted=None, sha256=digest).read_bytes() == packed


def test_an_old_one_never_takes_its_place(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "b.ldb"
    path.write_bytes(b"the newer one")
    server.content = packed
    with pytest.raises(BundleOutdated, match="release 5 of 'small', and 6 is the oldest"):
        get(server, path, keys, minimum_release=6)
    line = f"{keys.signer.public().material.hex()}/small"
    with pytest.raises(BundleOutdated):
        get(server, path, keys, releases={line: 7})
    assert leftovers(tmp_path) == ["b.ldb"] and path.read_bytes() == b"the newer one"


def test_what_a_server_refuses(server: Server, keys: Keys, packed: bytes, tmp_path: Path) -> None:
    server.content, server.refusals = packed, [503, 500]
    get(server, tmp_path / "a.ldb", keys)
    assert len(server.asked) == 3
    server.refusals = [404]
    with pytest.raises(BundleError, match="in 1 of 5 tries: the server answered 404"):
        get(server, tmp_path / "b.ldb", keys)
    server.encoded = True
    with pytest.raises(BundleError, match="comes encoded"):
        get(server, tmp_path / "b.ldb", keys)


def test_no_more_than_is_allowed(server: Server, keys: Keys, packed: bytes, tmp_path: Path) -> None:
    server.content = packed
    with pytest.raises(BundleTooLarge, match=r"are allowed \(max_bytes\)"):
        get(server, tmp_path / "b.ldb", keys, max_bytes=1000)
    assert not list(tmp_path.iterdir())


def test_no_server(server: Server, keys: Keys, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(BundleError, match="in 2 of 2 tries"):
        get(server, tmp_path / "b.ldb", keys, tries=2)


def test_plain_http_goes_no_further_than_this_machine(
    server: Server, keys: Keys, tmp_path: Path
) -> None:
    for url in ("http://localhost:1/", "http://127.9.9.9/", "http://[::1]/", "https://a.org/"):
        check_url(url, False)
    for url in ("http://example.com/b", "http://localhost.example.com/", "http://10.0.0.1/"):
        with pytest.raises(BundleError, match="plain HTTP, which anybody on the way can read"):
            check_url(url, False)
        check_url(url, True)
    for url in ("file:///etc/passwd", "ftp://a.org/", "b.ldb", "http://"):
        with pytest.raises(BundleError, match="no http"):
            check_url(url, True)
    server.redirect = "http://example.com/b.ldb"
    with pytest.raises(BundleError, match=r"http://example.com/b.ldb is plain HTTP"):
        get(server, tmp_path / "b.ldb", keys)
    server.redirect = "file:///etc/passwd"
    with pytest.raises(BundleError, match="the server answered 302"):
        get(server, tmp_path / "b.ldb", keys)
    with pytest.raises(BundleError, match="nothing says what the right bundle is"):
        fetch(server.url, tmp_path / "b.ldb")
    assert shown("https://user:pass@a.org/b?token=t#f") == "https://a.org/b"


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    named = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *named])
    return head.encode("latin-1") + b"\r\n\r\n" + body


@pytest.mark.parametrize("piece", ["{0}-9/5", "{0}-9/{0}", "{0}-9/" + "9" * 5000, "3-9/10", "x"])
def test_a_server_that_lies_about_a_piece(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path, piece: str
) -> None:
    server.content, server.breaks = packed, [100_000]
    with pytest.raises(BundleError):
        get(server, tmp_path / "b.ldb", keys, tries=1)
    server.raw = [answer("206 Part", packed[9:], Content_Range=f"bytes {piece.format(100_000)}")]
    assert get(server, tmp_path / "b.ldb", keys, tries=2).read_bytes() == packed
    assert server.asked == [None, "bytes=100000-", None]


def test_a_server_that_lies_about_the_length(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "b.ldb"
    for length in ("9" * 5000, "-1", "many"):  # as if it had said none
        server.raw = [answer("200 OK", packed, Content_Length=length)]
        assert get(server, path, keys, tries=1).read_bytes() == packed
    server.raw = [answer("200 OK", packed, Content_Length=str(1 << 50))]
    with pytest.raises(BundleTooLarge):
        get(server, path, keys, tries=1)
    assert leftovers(tmp_path) == ["b.ldb"]


def test_what_came_before_a_silence_is_kept(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    server.content, server.silent = packed, 1.5
    server.raw = [answer("200 OK", packed[:1000], ETag='"one"', Content_Length=str(len(packed)))]
    assert get(server, tmp_path / "b.ldb", keys, timeout=0.5).read_bytes() == packed
    assert server.asked == [None, "bytes=1000-"]


@pytest.mark.parametrize(
    "to", ["http://[::1", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "/\xfc\xfc", ""]
)
def test_redirections_to_nowhere(server: Server, keys: Keys, tmp_path: Path, to: str) -> None:
    server.raw = [answer("302 Found", Location=to)] * 20
    with pytest.raises(BundleError) as got:
        get(server, tmp_path / "b.ldb", keys, tries=1)
    assert "is kept in" not in str(got.value)


def test_what_a_server_says_stays_in_its_line(server: Server, keys: Keys, tmp_path: Path) -> None:
    server.raw = [answer("404 \x1b[2J" + "x" * 5000)]
    with pytest.raises(BundleError, match=r"answered 404 \?\[2Jxxx") as got:
        get(server, tmp_path / "b.ldb", keys)
    assert str(got.value).isprintable() and len(str(got.value)) < 600


@pytest.mark.parametrize("rest", ["a b", "\n", "\u00fc", "\0"])
def test_addresses_that_need_encoding(
    server: Server, keys: Keys, tmp_path: Path, rest: str
) -> None:
    with pytest.raises(BundleError, match="percent-encode"):
        fetch(server.url + rest, tmp_path / "b.ldb", trusted=[keys.signer.public()])
    assert server.asked == []


def test_paths_that_cannot_be_written(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    server.content = packed
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", Path(), tmp_path / "a\0b"):
        with pytest.raises(BundleError, match="no name for a file to download to"):
            get(server, path, keys)
    for path in (tmp_path / "none" / "b.ldb", tmp_path / ("x" * 253)):
        with pytest.raises(BundleError, match=r"in 1 of 5 tries: \[Errno"):
            get(server, path, keys)
    assert leftovers(tmp_path) == ["folder"]


def test_links_in_its_way_are_replaced_not_followed(
    server: Server, keys: Keys, packed: bytes, tmp_path: Path
) -> None:
    path, other = tmp_path / "b.ldb", tmp_path / "precious"
    server.content, server.breaks = packed, [100_000]
    with pytest.raises(BundleError):
        get(server, path, keys, tries=1)
    (tmp_path / "b.ldb.part").rename(other)  # what arrived, so that there is something to go on
    (tmp_path / "b.ldb.part").symlink_to(other)
    had = other.read_bytes()
    assert get(server, path, keys).read_bytes() == packed
    assert server.asked == [None, None]
    assert other.read_bytes() == had and not path.is_symlink()

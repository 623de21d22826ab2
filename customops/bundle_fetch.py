"""Downloading a bundle: resumed after a break, checked before it takes its place."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import ssl
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .bundle_errors import BundleAltered, BundleError, BundleTooLarge, BundleTruncated
from .bundle_keys import Key
from .bundle_open import MOST_BYTES, verify

Progress = Callable[[int, "int | None"], None]
BLOCK = 1 << 16


def fetch(
    url: str,
    path: str | os.PathLike[str],
    *,
    trusted: Sequence[Key | bytes] | None = None,
    sha256: str | None = None,
    minimum_release: int = 0,
    releases: Mapping[str, int] | None = None,
    name: str | None = None,
    allow_http: bool = False,
    progress: Progress | None = None,
    tries: int = 5,
    timeout: float = 30.0,
    pause: float = 1.0,
    max_bytes: int = MOST_BYTES,
) -> Path:
    """Downloads `url`, checks it, and only then puts it at `path`.

    At least one of `trusted` and `sha256` says what is right; the rest is as in `Bundle.open`.
    What arrived before a break stays in `path`.part and is gone on with, within `tries` and in the
    next call, as long as the server has the same file. Nothing is decrypted.

    * `allow_http`: plain HTTP to other machines than this one, redirections included.
    * `progress`: called with the bytes there are, and the whole number where it is known.
    * `timeout`, `pause`: seconds until a silent server counts as a break, and before another try
      (twice as long each time).

    BundleError, and `path` as it was, where that fails.
    """
    if trusted is None and sha256 is None:
        raise BundleError("nothing says what the right bundle is: give trusted=[...] or sha256=")
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise BundleError("sha256 takes 64 hexadecimal digits")
    check_url(url, allow_http)
    path = Path(path)
    if not path.name or "\0" in str(path) or path.is_dir():
        raise BundleError(f"{str(path)!r:.120} is no name for a file to download to")
    download = _Download(url, path, allow_http, timeout, max_bytes, progress)
    for attempt in range(max(1, tries)):
        try:
            download.go_on()
            break
        except (OSError, http.client.HTTPException, BundleTruncated) as error:
            if _is_final(error) or attempt + 1 >= tries:
                kept = f". What arrived is kept in {download.part}" if download.started else ""
                raise BundleError(
                    f"{shown(url)} was not downloaded, in {attempt + 1} of {max(1, tries)} tries: "
                    f"{_reason(error)}{kept}"
                ) from error
            time.sleep(pause * 2**attempt)
    try:
        if sha256 is not None:
            _check_sha256(download.part, sha256.lower())
        if trusted is not None:
            verify(
                download.part,
                trusted=trusted,
                minimum_release=minimum_release,
                releases=releases,
                name=name,
                max_bytes=max_bytes,
            )
    except BundleError:
        download.discard()
        raise
    download.finish()
    return path


def check_url(url: str, allow_http: bool) -> None:
    """BundleError unless it is HTTPS, HTTP to this machine, or HTTP that is allowed."""
    if not all("!" <= c <= "~" for c in url):
        raise BundleError(
            "an address takes ASCII without spaces: percent-encode other characters, and write "
            "names of hosts as xn--…"
        )
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port  # ValueError where it is none
    except ValueError as error:
        raise BundleError(f"this is no http(s) address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BundleError(f"{shown(url)} is no http(s) address")
    if parts.scheme == "http" and not allow_http and not _is_loopback(parts.hostname):
        raise BundleError(
            f"{shown(url)} is plain HTTP, which anybody on the way can read and change: use https, "
            "or allow it (allow_http=True, --allow-http)"
        )


def shown(url: str) -> str:
    """An address for messages, without what may be secret in it: user, password, query."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Those that keep to the rules of `check_url`, and never from HTTPS to HTTP."""

    def __init__(self, allow_http: bool) -> None:
        self.allow_http = allow_http

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_url(newurl, self.allow_http)
        if req.type == "https" and urllib.parse.urlsplit(newurl).scheme == "http":
            raise BundleError(f"{shown(req.full_url)} leads from https to {shown(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Download:
    """A file that comes in pieces. Beside it stands what tells whether the server's is the same."""

    def __init__(
        self,
        url: str,
        path: Path,
        allow_http: bool,
        timeout: float,
        max_bytes: int,
        progress: Progress | None,
    ) -> None:
        self.url, self.path = url, path
        self.known_as = hashlib.sha256(url.encode()).hexdigest()  # an address may hold a password
        self.part = path.with_name(path.name + ".part")
        self.note = path.with_name(path.name + ".part.json")
        self.timeout, self.max_bytes, self.progress = timeout, max_bytes, progress
        self.opener = urllib.request.build_opener(_Redirects(allow_http))

    def go_on(self) -> None:
        """From where it stands to the end. BundleTruncated, OSError or HTTPException where not."""
        have, validator = self._standing()
        headers = {"Accept-Encoding": "identity", "User-Agent": "litedelegate"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": validator}
        request = urllib.request.Request(self.url, headers=headers)
        try:
            response = self.opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # the file has become shorter, or was whole already
                self.discard()
                raise BundleTruncated("the server has another file now") from error
            raise
        except BundleError:
            raise
        except ValueError as error:  # of a redirection
            raise BundleError(f"{shown(self.url)} leads to what is no address: {error}") from None
        with response:
            start, total = self._place(response, have)
            if total is not None and total > self.max_bytes:
                raise BundleTooLarge(
                    f"{shown(self.url)} has {total} bytes; {self.max_bytes} are allowed (max_bytes)"
                )
            if not start:
                self._remember(response.headers)
            have = self._receive(response, start, total)
        if total is not None and have != total:
            raise BundleTruncated(f"the connection broke after {have} of {total} bytes")

    def _place(self, response: Any, have: int) -> tuple[int, int | None]:
        """Where in the file the answer begins, and how long the file is."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise BundleError(f"{shown(self.url)} comes encoded, which was not asked for")
        if response.status == 206:
            text = response.headers.get("Content-Range", "")
            found = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", text)
            wrong = found is not None and found[3] != "*" and int(found[3]) <= have
            if not have or found is None or int(found[1]) != have or wrong:
                self.discard()
                raise BundleTruncated("the server sent another piece than was asked for")
            return have, None if found[3] == "*" else int(found[3])
        if response.status != 200:
            raise BundleError(f"{shown(self.url)}: the server answered {response.status}")
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch("[0-9]{1,18}", length) else None

    def _receive(self, response: Any, start: int, total: int | None) -> int:
        have = start
        if not start:  # a new file: never through a link that somebody put there
            self.part.unlink(missing_ok=True)
        with self.part.open("r+b" if start else "xb") as file:
            file.seek(start)
            while block := response.read1(BLOCK):  # what there is: a break may come before more
                have += len(block)
                if have > (self.max_bytes if total is None else total):
                    raise BundleTooLarge(f"{shown(self.url)} sends more bytes than it may")
                file.write(block)
                if self.progress is not None:
                    self.progress(have, total)
        return have

    def _standing(self) -> tuple[int, str]:
        """Bytes that are there, and what the server said to know the file by; 0 without that."""
        try:
            note = json.loads(self.note.read_bytes())
            known = note["url"] == self.known_as and isinstance(note["validator"], str)
            standing = self.part.lstat()
            if known and stat.S_ISREG(standing.st_mode):
                return standing.st_size, note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""  # nothing of use: begin anew
        return 0, ""

    def _remember(self, headers: Any) -> None:
        """A strong ETag, or else the date; without either a break means to begin anew."""
        tag = headers.get("ETag", "")
        validator = tag if tag.startswith('"') else headers.get("Last-Modified")
        self.note.unlink(missing_ok=True)
        if validator:
            text = json.dumps({"url": self.known_as, "validator": validator})
            self.note.write_text(text, encoding="utf-8")

    @property
    def started(self) -> bool:
        return os.path.isfile(self.part)

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def finish(self) -> None:
        try:
            with self.part.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(self.part, self.path)
            self.note.unlink(missing_ok=True)
        except OSError as error:
            raise BundleError(f"{self.path} is not written: {error}") from None


def _check_sha256(path: Path, wanted: str) -> None:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != wanted:
        raise BundleAltered(
            f"a wrong file was downloaded: its SHA-256 is {digest.hexdigest()}, not {wanted}"
        )


def _is_final(error: Exception) -> bool:
    """Whether another try cannot help: most of what a server refuses, faults of this machine."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code < 500
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, ssl.SSLCertVerificationError)
    return not isinstance(
        error, ConnectionError | TimeoutError | http.client.HTTPException | BundleTruncated
    )


def _reason(error: Exception) -> str:
    """In one line, whatever a server put into it."""
    if isinstance(error, urllib.error.HTTPError):
        text = f"the server answered {error.code} {error.reason}"
    else:
        text = str(getattr(error, "reason", "") or error) or type(error).__name__
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line[:300])

"""Downloads over HTTPS, with an authority made for the test."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bundle_server import Server, running
from bundles import Keys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from litedelegate.customops.bundle import BundleError, fetch

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates of servers."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        own = self._signed(self.name, self.key, NOW + DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = {
            "digital_signature": False, "content_commitment": False, "key_encipherment": False,
            "data_encipherment": False, "key_agreement": False, "key_cert_sign": True,
            "crl_sign": True, "encipher_only": False, "decipher_only": False,
        }  # fmt: skip
        own = own.add_extension(x509.KeyUsage(**usage), critical=True)
        self.file.write_bytes(self._pem(own))

    def _signed(self, subject: x509.Name, key: Any, until: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 2 * DAY)
            .not_valid_after(until)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )

    def _pem(self, builder: x509.CertificateBuilder) -> bytes:
        made = builder.sign(self.key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    def context(self, host: str, days: int = 1) -> ssl.SSLContext:
        """A server's, for that address."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        certificate = self._signed(subject, key, NOW + days * DAY).add_extension(names, False)
        path = self.folder / f"server {host} {days}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(private + self._pem(certificate))
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(path)
        return made


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that this process trusts."""
    made = Authority(tmp_path, "trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


@contextmanager
def serving(content: bytes, context: ssl.SSLContext | None) -> Iterator[Server]:
    with running(Server(), context) as server:
        server.content = content
        yield server


def get(server: Server, folder: Path, keys: Keys) -> Path:
    trusted = [keys.signer.public()]
    return fetch(server.url, folder / "b.ldb", trusted=trusted, pause=0.01, timeout=5)


def test_downloads_and_goes_on_after_a_break(
    authority: Authority, packed: bytes, keys: Keys, tmp_path: Path
) -> None:
    with serving(packed, authority.context("127.0.0.1")) as server:
        server.breaks = [100_000]
        assert get(server, tmp_path, keys).read_bytes() == packed
        assert server.url.startswith("https://")
        assert server.asked[0] is None and str(server.asked[1]).startswith("bytes=")


@pytest.mark.parametrize(
    ("host", "days", "text"),
    [("127.0.0.1", -1, "certificate has expired"), ("127.0.0.2", 1, "certificate is not valid")],
)
def test_a_certificate_that_does_not_hold(
    authority: Authority, packed: bytes, keys: Keys, tmp_path: Path, host: str, days: int, text: str
) -> None:
    with (
        serving(packed, authority.context(host, days)) as server,
        pytest.raises(BundleError, match=f"in 1 of 5 tries: .*{text}"),
    ):
        get(server, tmp_path, keys)
    assert not server.asked
    assert not (tmp_path / "b.ldb").exists()


def test_an_authority_that_nobody_trusts(
    authority: Authority, packed: bytes, keys: Keys, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other", "stranger")
    with (
        serving(packed, stranger.context("127.0.0.1")) as server,
        pytest.raises(BundleError, match=r"in 1 of 5 tries: .*certificate verify failed"),
    ):
        get(server, tmp_path, keys)
    assert not server.asked


def test_never_from_https_to_http(
    authority: Authority, packed: bytes, keys: Keys, tmp_path: Path
) -> None:
    with (
        serving(packed, None) as plain,
        serving(b"", authority.context("127.0.0.1")) as server,
        pytest.raises(BundleError, match=r"leads from https to http://127\.0\.0\.1"),
    ):
        server.redirect = plain.url
        get(server, tmp_path, keys)
    assert not plain.asked
    assert not (tmp_path / "b.ldb").exists()

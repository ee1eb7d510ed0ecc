"""Signs the certificates by which the proxy opens the TLS of a command's requests: an authority of this process alone.

Its key and those of the certificates are in memory only. Commands trust it because they see it in the system's file of
authorities; nobody else sees that.
"""

from __future__ import annotations

import os
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...core.errors import SandboxUnavailable
from ..per_process import PerProcess
from ..real_path import real_path
from ..spawn import memory_file

_VALID = timedelta(days=365)
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
)  # fmt: skip
"""Where distributions have the authorities that they trust (as in Go's crypto/x509/root_linux.go)."""


class Authority:
    """Signs certificates for hosts. `authority()` is the one of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._key, self._leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Toolcrib's proxy (this run alone)")])
        certificate = self._signed(self._name, self._key.public_key(), None)
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def bundle(self) -> tuple[str, bytes]:
        """Return the path of the system's file of authorities, and its content with this one. Raises SandboxUnavailable
        without such a file: with this authority alone, no other host would be trusted."""
        for path in map(Path, _SYSTEM):
            if path.is_file():
                return real_path(path), path.read_bytes() + b"\n" + self.pem
        raise SandboxUnavailable("secrets with `egress` need the system's certificate authorities (ca-certificates)")

    def context(self, host: str) -> ssl.SSLContext:
        """Return what the proxy answers TLS for this host with: HTTP/1.1, and no other server name."""
        with self._lock:
            if host not in self._contexts:
                self._contexts[host] = self._context(host)
            return self._contexts[host]

    def _context(self, host: str) -> ssl.SSLContext:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
        leaf = self._signed(subject, self._leaf_key.public_key(), host)
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.keylog_filename = None  # pyright: ignore[reportAttributeAccessIssue]
        context.set_alpn_protocols(["http/1.1"])
        fd = memory_file(leaf.public_bytes(serialization.Encoding.PEM) + key)  # `ssl` reads keys from files alone
        try:
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

        def judge_name(_connection: object, name: str | None, _context: object) -> int | None:
            same = name is None or name.lower().removesuffix(".") == host
            return None if same else int(ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)

        context.sni_callback = judge_name  # pyright: ignore[reportAttributeAccessIssue]
        return context

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, host: str | None) -> x509.Certificate:
        """Return a certificate of a host; without one, the authority's own."""
        now = datetime.now(UTC)
        use = x509.KeyUsage(
            digital_signature=host is not None, key_cert_sign=host is None, crl_sign=host is None,
            content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _VALID)
            .add_extension(x509.BasicConstraints(host is None, 0 if host is None else None), critical=True)
            .add_extension(use, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if host is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return made.sign(self._key, hashes.SHA256())


authority = PerProcess(Authority)

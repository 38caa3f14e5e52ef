"""The cluster's own certificates: one authority, and a key and certificate for every part that speaks or listens.

Decided here: how they are made, when they are made again, who may read them. Not decided here: which parts there are,
and what they are called (identities.py).
"""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650  # its key never leaves this machine, and its end would end every running pod's trust
_DAYS = 365
_RENEWED_BEFORE = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(minutes=5)  # a clock that is set back a little must not make a new certificate invalid

_USAGES = {"client": ExtendedKeyUsageOID.CLIENT_AUTH, "server": ExtendedKeyUsageOID.SERVER_AUTH}


@dataclass(frozen=True)
class Identity:
    """Who a certificate is for. `addresses` are host names and IP addresses; they make it a server's."""

    name: str  # of its files
    common_name: str  # the user that Kubernetes sees
    groups: tuple[str, ...] = ()  # and the groups
    usages: tuple[str, ...] = ("client",)
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pki:
    """The folder of keys and certificates."""

    folder: Path

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    @property
    def authority(self) -> Path:
        return self.certificate("ca")

    @property
    def token_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.key("service-account")

    @property
    def token_public_key(self) -> Path:
        return self.folder / "service-account.pub"

    def issue(self, identities: Iterable[Identity]) -> list[str]:
        """Have a valid certificate for each; the names of those that were made (again)."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority, authority_key = self._authority()
        self._token_keys()
        made = []
        for identity in identities:
            if not self._serves(identity, authority):
                self._make(identity, authority, authority_key)
                made.append(identity.name)
        return made

    def _authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        certificate, key = _certificate(self.authority), _key(self.key("ca"))
        if certificate and key and _lasts(certificate) and certificate.public_key() == key.public_key():
            return certificate, key
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tfcluster-local-ca")])
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        certificate = (
            _builder(name, name, key, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self._write("ca", certificate, key)
        return certificate, key

    def _token_keys(self) -> None:
        key = _key(self.token_key)
        if key is None:
            key = ec.generate_private_key(ec.SECP256R1())
            _replace(self.token_key, _key_pem(key), 0o600)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        if not self.token_public_key.exists() or self.token_public_key.read_bytes() != public:
            _replace(self.token_public_key, public, 0o644)

    def _serves(self, identity: Identity, authority: x509.Certificate) -> bool:
        """Whether what is there is for this identity, of this authority, and lasts."""
        certificate, key = _certificate(self.certificate(identity.name)), _key(self.key(identity.name))
        if not (certificate and key and _lasts(certificate) and certificate.public_key() == key.public_key()):
            return False
        try:
            certificate.verify_directly_issued_by(authority)
            usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except Exception:  # a signature of another authority, or a file that is no such certificate: it is made anew
            return False
        return (
            certificate.subject == _subject(identity)
            and usages == x509.ExtendedKeyUsage([_USAGES[usage] for usage in identity.usages])
            and _addresses(certificate) == _alternatives(identity)
        )

    def _make(self, identity: Identity, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_subject(identity), authority.subject, key, _DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_USAGES[usage] for usage in identity.usages]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )
        if identity.addresses:
            builder = builder.add_extension(_alternatives(identity), critical=False)
        self._write(identity.name, builder.sign(authority_key, hashes.SHA256()), key)

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        _replace(self.key(name), _key_pem(key), 0o600)
        _replace(self.certificate(name), certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _subject(identity: Identity) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name)])


def _alternatives(identity: Identity) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for address in identity.addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    return x509.SubjectAlternativeName(names)


def _addresses(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _lasts(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > _RENEWED_BEFORE


def _certificate(file: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _key(file: Path) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except (FileNotFoundError, ValueError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The form that every Go program reads, for EC keys too.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _replace(file: Path, content: bytes, mode: int) -> None:
    """Write it whole or not at all, never readable by more than `mode` says."""
    aside = file.with_name(f"{file.name}.partial")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    aside.rename(file)

"""TLS of servers and channels, from files that are read again when they change."""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

log = logging.getLogger(__name__)

Content = tuple[bytes | None, bytes | None, bytes | None]
"""Private key, certificate chain and authorities, as PEM."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: `authorities` certify the other side, `certificate` and `key` are shown to it."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def read(self) -> Content:
        """Return what the files hold now.

        Raises:
            OSError: One cannot be read.
            ValueError: One holds nothing usable, or key and certificate do not fit together, as between two writes of
                a rotation.
        """
        key, certificate, authorities = (
            file.read_bytes() if file else None for file in (self.key, self.certificate, self.authorities)
        )
        for file, content in ((self.authorities, authorities), (self.certificate, certificate)):
            if content is not None:
                _require_certificate(file, content)
        if self.certificate and self.key:
            _require_pair(self.certificate, self.key)
        return key, certificate, authorities


def _require_certificate(file: Path | None, content: bytes) -> None:
    try:
        # Comments between certificates may be in any script; the parser takes ASCII only.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{file} holds no certificate; write one in PEM") from error


def _require_pair(certificate: Path, key: Path) -> None:
    def pass_phrase() -> str:
        # Without this, OpenSSL asks on the terminal.
        raise ValueError(f"{key} is encrypted; write the private key without a pass phrase")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, pass_phrase)
    except ssl.SSLError as error:
        if error.reason:
            raise ValueError(f"{certificate} and {key} do not fit together ({error.reason})") from error
        raise ValueError(f"{key} holds no private key; write one in PEM") from error


class Rotating:
    """Content of TLS files, the last that was usable."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.content = files.read()

    def reread(self) -> Content:
        """Return the content now; files that cannot be used leave it as it was, with a warning."""
        try:
            self.content = self._files.read()
        except (OSError, ValueError) as error:
            log.warning("the TLS files are not read again", extra={"why": str(error)})
        return self.content


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return a server's credentials. With authorities, callers have to show a certificate of theirs.

    Raises:
        OSError, ValueError: The files cannot be used.
    """
    rotating = Rotating(files)
    told = rotating.content

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal told
        before, told = told, rotating.reread()  # At each handshake, on a thread of gRPC.
        return _configuration(told) if told != before else None

    credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
        _configuration(told),
        changed,  # type: ignore[arg-type, unused-ignore]  # None keeps the last, which the stubs do not know
        require_client_authentication=files.authorities is not None,
    )
    return credentials


def channel_credentials(files: TlsFiles) -> tuple[Callable[[], grpc.ChannelCredentials], Callable[[], object]]:
    """Return what makes a channel's credentials of the content now, and what tells whether that has changed.

    Raises:
        OSError, ValueError: The files cannot be used.
    """
    rotating = Rotating(files)

    def make() -> grpc.ChannelCredentials:
        key, certificate, authorities = rotating.content
        return grpc.ssl_channel_credentials(authorities, key, certificate)

    return make, rotating.reread


def _configuration(content: Content) -> grpc.ServerCertificateConfiguration:
    key, certificate, authorities = content
    assert key is not None
    assert certificate is not None
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)

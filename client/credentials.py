"""TLS of a client's channel, from PEM files."""

import ssl
from pathlib import Path

import grpc

File = str | Path


def read(ca_file: File, certificate_file: File, key_file: File) -> grpc.ChannelCredentials | None:
    """Return the credentials that the files make; None, for plaintext, without any.

    Raises:
        OSError: One cannot be read.
        ValueError: One is missing beside the others, or holds nothing usable.
    """
    if bool(certificate_file) != bool(key_file):
        raise ValueError("certificate and key go together; give both or none")
    if not ca_file:
        if certificate_file:
            raise ValueError(f"the certificate {certificate_file} is shown by TLS only; give the authority (ca) too")
        return None
    authorities = Path(ca_file).read_bytes()
    try:
        # Comments between certificates may be in any script; the parser takes ASCII only.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{ca_file} holds no certificate; name the authority's, in PEM") from error
    if not certificate_file:
        return grpc.ssl_channel_credentials(authorities)
    certificate, key = Path(certificate_file).read_bytes(), Path(key_file).read_bytes()
    _require_pair(certificate_file, key_file)
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _require_pair(certificate_file: File, key_file: File) -> None:
    def pass_phrase() -> str:
        # Without this, OpenSSL asks on the terminal.
        raise ValueError(f"{key_file} is encrypted; give a private key without a pass phrase")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate_file, key_file, pass_phrase)
    except ssl.SSLError as error:
        problem = f"{certificate_file} and {key_file} are no certificate and its private key"
        raise ValueError(f"{problem}; give both in PEM") from error

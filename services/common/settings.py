"""The settings that every service has; each service adds its own in its `settings.py`."""

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field, FilePath, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.metrics import VARIANT
from services.common.tls import TlsFiles


class ServiceSettings(BaseSettings):
    """Listening, TLS and stop of a service."""

    model_config = SettingsConfigDict(frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    host: str = "127.0.0.1"
    """Address to listen on; any but loopback needs TLS, or `insecure`."""
    port: int = Field(default=50051, ge=0, le=65535)
    """Port of the gRPC door; 0 takes a free one."""
    health_port: int = Field(default=0, ge=0, le=65535)
    """Plaintext port with nothing but `grpc.health`, for probes that cannot speak TLS; 0 switches it off."""
    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Port of the Prometheus page; 0 switches it off."""
    insecure: bool = False
    """Whether to listen on other addresses than loopback without TLS."""
    tls_certificate_file: FilePath | None = None
    """PEM file of this service's certificate chain; files of TLS are read again when they change."""
    tls_key_file: FilePath | None = None
    """PEM file of its private key."""
    tls_client_ca_file: FilePath | None = None
    """PEM file of authorities: with it, callers have to show a certificate of theirs."""
    tls_ca_file: FilePath | None = None
    """PEM file of authorities: with it, this service calls others by TLS only, and shows them its certificate."""
    shutdown_grace_s: float = Field(default=20, ge=0)
    """Seconds that running calls get to finish after SIGTERM."""
    queue_waiting_max: int = Field(default=8, ge=0)
    """Requests that may wait for the model; more are refused with RESOURCE_EXHAUSTED."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """Least level that is logged."""
    variant: str = Field(default=VARIANT, pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")
    """Name of the variant of its stage that this process belongs to, for its metrics."""
    models_dir: Path = Path(".models")
    """Folder of the weights."""

    @model_validator(mode="after")
    def _listens_safely(self) -> "ServiceSettings":
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            raise ValueError("tls_certificate_file and tls_key_file go together; set both or none")
        if self.tls_client_ca_file and not self.tls_certificate_file:
            raise ValueError("tls_client_ca_file is set, but no tls_certificate_file; callers need TLS to show theirs")
        if not (self.insecure or self.tls_certificate_file or _is_loopback(self.host)):
            problem = f"host is {self.host}, which others can reach, and there is no TLS"
            raise ValueError(f"{problem}; set tls_certificate_file and tls_key_file, or insecure=true")
        return self

    @property
    def server_tls(self) -> TlsFiles | None:
        """Files with which this service serves TLS; None for plaintext."""
        if not self.tls_certificate_file:
            return None
        return TlsFiles(self.tls_client_ca_file, self.tls_certificate_file, self.tls_key_file)

    @property
    def channel_tls(self) -> TlsFiles | None:
        """Files with which this service calls others by TLS; None for plaintext."""
        return TlsFiles(self.tls_ca_file, self.tls_certificate_file, self.tls_key_file) if self.tls_ca_file else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"

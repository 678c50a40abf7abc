"""Addresses of other services, as settings give them."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator

FORMS = "host:port, dns:///host:port, [v6]:port, ipv4:a.b.c.d:port[,…], ipv6:[v6]:port[,…] or unix:path"
PORT_MAX = 65535

_HOST = re.compile(r"\w[\w-]*(\.\w[\w-]*)*\.?")


def parse(text: str) -> str:
    """Return the address as it is.

    Raises:
        ValueError: It has none of the forms.
    """
    if not _is_address(text):
        raise ValueError(f"{text!r} is no address; write {FORMS}, with a port from 1 to {PORT_MAX}")
    return text


Address = Annotated[str, AfterValidator(parse)]
"""Target of gRPC that lists the replicas of a service."""


def _is_address(text: str) -> bool:
    scheme, _, rest = text.partition(":")
    if scheme == "unix":
        return bool(rest)
    if scheme in ("ipv4", "ipv6"):
        return all(_kind(each) == scheme for each in rest.split(","))
    if scheme == "dns":
        return rest.startswith("///") and bool(_kind(rest.removeprefix("///")))
    return bool(_kind(text))


def _kind(text: str) -> str:
    """Return `ipv4`, `ipv6` or `name` for the host of a `host:port`; empty when it is none."""
    host, _, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= PORT_MAX:
        return ""
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        version = ipaddress.ip_address(host[1:-1] if is_bracketed else host).version
    except ValueError:
        # Four numbers, or too few of them, are meant as an address.
        return "name" if _HOST.fullmatch(host) and not re.fullmatch(r"[\d.]+", host) else ""
    return f"ipv{version}" if is_bracketed == (version == 6) else ""

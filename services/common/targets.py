"""Targets of gRPC, as settings name them: parse them, and resolve their names."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


def host_of(target: str) -> str:
    """Return the host of a target, without its port."""
    return split(target)[1].rpartition(":")[0].strip("[]")


def split(target: str) -> tuple[str, str]:
    """Return scheme and addresses of a target: `dns` with `host:port` for a name, else `ipv4`, `ipv6` or `unix`."""
    scheme, _, rest = target.partition(":")
    if scheme in ("ipv4", "ipv6", "unix"):
        return scheme, rest
    rest = target.removeprefix("dns:").lstrip("/")
    host = rest.rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return f"ipv{ipaddress.ip_address(host).version}", rest
    return "dns", rest


async def listed_by(target: str) -> list[str]:
    """Return the addresses behind a target, as targets of gRPC.

    Raises:
        OSError: Its name cannot be resolved.
    """
    scheme, rest = split(target)
    return await resolved(rest) if scheme == "dns" else [f"{scheme}:{each}" for each in rest.split(",")]


async def resolved(name: str) -> list[str]:
    """Return the addresses of `host:port`, as targets of gRPC.

    Raises:
        OSError: It cannot be resolved.
    """
    host, _, port = name.rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except ValueError as error:
        raise OSError(f"{name!r} is not host:port") from error
    return listed(found, port)


def listed(found: Sequence[tuple[int, int, int, str, tuple[Any, ...]]], port: str) -> list[str]:
    """Return targets for what `getaddrinfo` found, of its first family only: with both, each replica would be two."""
    return [
        f"ipv4:{where[0]}:{port}" if family == socket.AF_INET else f"ipv6:[{where[0]}]:{port}"
        for family, _, _, _, where in found
        if family == found[0][0]
    ]

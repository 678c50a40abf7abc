"""Free TCP ports of the loopback interface for servers that tests start."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack


def free_ports(count: int, *, first: int = 22_000, last: int = 29_999, offsets: Sequence[int] = (0,)) -> list[int]:
    """Pick free ports below the range that the kernel hands out, so that a restarted server finds its port free.

    Args:
        count: Number of ports.
        first: Lowest port.
        last: Highest port.
        offsets: Distances from a port at which the port must be free as well.
    """
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            port = random.randint(first, last)
            try:
                for offset in offsets:
                    listener = held.enter_context(socket.socket())
                    listener.bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            ports.append(port)
    return ports

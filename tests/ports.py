"""Ports of this machine that a test keeps while no server listens there."""

import socket


class HeldPort:
    """A loopback port that refuses connections until a server of the test listens there; no one else can take it.

    Close it after the server.

    Args:
        port: 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket()
        try:
            self._socket.bind(("127.0.0.1", port))
            # Servers that set it too may listen: those of gRPC, Go and `socket.create_server`. After the bind, since
            # before it two of these could hold one port.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            self._socket.close()
            raise
        self.number = int(self._socket.getsockname()[1])

    def __enter__(self) -> "HeldPort":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the port back."""
        self._socket.close()

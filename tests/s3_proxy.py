"""A TCP proxy before a server, with faults that a test switches on: the network between the memory and its store."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

from tests.ports import HeldPort

Fault = Callable[[str, bytes], bytes | None]
"""Gets the first line of the request and a piece that is on its way; returns what goes on, None cuts the connection."""

PIECE_BYTES = 2**16


def as_it_is(request: str, piece: bytes) -> bytes | None:
    """No fault."""
    return piece


class Losing:
    """Cuts the connection instead of passing on the next `times` answers to requests of `method`."""

    def __init__(self, method: str, times: int = 1) -> None:
        self._method = method
        self.left = times
        self._lock = threading.Lock()

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        with self._lock:
            if not self.left or not request.startswith(self._method):
                return piece
            self.left -= 1
            return None


class Flipping:
    """Flips the last bit of the body in the next `times` pieces to or from the server."""

    def __init__(self, method: str, times: int = 1) -> None:
        self._method = method
        self.left = times

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        if not self.left or not request.startswith(self._method) or piece.endswith(b"\r\n\r\n"):
            return piece
        self.left -= 1
        return piece[:-1] + bytes([piece[-1] ^ 1])


class Answering:
    """Gives another answer in the place of the server's, the next `times`."""

    def __init__(self, status: int, body: bytes, kind: str, times: int = 1000) -> None:
        head = (
            f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._answer = head.encode() + body
        self.left = times

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        if not self.left:
            return piece
        if not piece.startswith(b"HTTP/1.1 "):
            return None  # The rest of what was answered.
        self.left -= 1
        return self._answer


class Stalling:
    """Holds everything that the server answers until `end`."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._ended = threading.Event()

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        self.begun.set()
        self._ended.wait()
        return None

    def end(self) -> None:
        """Cuts what was held, and holds nothing more."""
        self._ended.set()


class S3Proxy:
    """Stands before the server at `port` of this machine, and speaks TLS in its place when it gets `tls`.

    Attributes:
        answers: What happens to the pieces that the server sends.
        requests: What happens to those that it is sent.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = ("127.0.0.1", port)
        self._tls = tls
        self.answers: Fault = as_it_is
        self.requests: Fault = as_it_is
        self._held = HeldPort()
        self.port = self._held.number
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._begin(self._accept)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def down(self) -> None:
        """Refuses connections, and cuts those that there are."""
        self._shut(self._listener)
        with self._lock:
            there = list(self._open)
        for each in there:
            self._shut(each)

    def up(self) -> None:
        """Accepts connections again, at the same address."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._begin(self._accept)

    def close(self) -> None:
        """Ends everything."""
        if isinstance(self.answers, Stalling):
            self.answers.end()
        self.down()
        for thread in self._threads:
            thread.join()
        self._held.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listener as listener:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                try:
                    if self._tls:
                        client = self._tls.wrap_socket(client, server_side=True)
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open |= {client, server}
                self._begin(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        line = [""]
        back = threading.Thread(target=self._pump, args=(server, client, line, lambda: self.answers))
        with client, server:
            back.start()
            self._pump(client, server, line, lambda: self.requests)
            back.join()
        with self._lock:
            self._open -= {client, server}

    def _pump(self, source: socket.socket, to: socket.socket, line: list[str], fault: Callable[[], Fault]) -> None:
        try:
            while piece := source.recv(PIECE_BYTES):
                start = piece.partition(b"\r\n")[0]
                if start.endswith(b"HTTP/1.1"):
                    line[0] = start.decode()
                passed = fault()(line[0], piece)
                if passed is None:
                    break
                to.sendall(passed)
        except OSError:
            pass  # One of the two has gone.
        self._shut(source)
        self._shut(to)

    @staticmethod
    def _shut(ended: socket.socket) -> None:
        with contextlib.suppress(OSError):  # It is shut already.
            ended.shutdown(socket.SHUT_RDWR)

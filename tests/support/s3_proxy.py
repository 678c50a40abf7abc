"""A proxy before an S3 server with faults that a test chooses: the network before the object storage."""

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable

Fault = Callable[[str, bytes], bytes | None]
"""Gets the first line of a request and a piece of it or of its response; returns what is forwarded, None to cut the
connection."""

PIECE_BYTES = 2**16


class Last(bytes):
    """Last part forwarded before the connection is cut."""


def pass_through(request: str, piece: bytes) -> bytes | None:
    """Forward everything as it is."""
    return piece


class LoseResponses:
    """Cuts the connection instead of forwarding the responses to requests with a method.

    Args:
        method: HTTP method, or the beginning of the request's first line.
        times: Number of responses.
    """

    def __init__(self, method: str, times: int = 1) -> None:
        self._method = method
        self.remaining = times
        self._lock = threading.Lock()

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        with self._lock:
            if not self.remaining or not request.startswith(self._method):
                return piece
            self.remaining -= 1
            return None


class FlipBit:
    """Flips the last bit of pieces of bodies.

    Args:
        method: HTTP method, or the beginning of the request's first line.
        times: Number of pieces.
    """

    def __init__(self, method: str, times: int = 1) -> None:
        self._method = method
        self.remaining = times

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        if not self.remaining or not request.startswith(self._method) or piece.endswith(b"\r\n\r\n"):
            return piece
        self.remaining -= 1
        return piece[:-1] + bytes([piece[-1] ^ 1])


class Truncate:
    """Forwards half of a piece of a body, then cuts the connection.

    Args:
        method: HTTP method, or the beginning of the request's first line.
        times: Number of connections.
    """

    def __init__(self, method: str, times: int = 1) -> None:
        self._method = method
        self.remaining = times

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        if not self.remaining or not request.startswith(self._method) or piece.endswith(b"\r\n\r\n"):
            return piece
        self.remaining -= 1
        headed = piece.startswith((b"HTTP/1.1 ", self._method.encode()))
        head, blank, body = piece.partition(b"\r\n\r\n") if headed else (b"", b"", piece)
        return Last(head + blank + body[: len(body) // 2])


class Delay:
    """Holds each piece back.

    Args:
        delay_s: Time for each piece.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        time.sleep(self._delay_s)
        return piece


class Respond:
    """Replaces the server's responses.

    Args:
        status: HTTP status.
        body: Of the response.
        content_type: Of the body.
        times: Number of responses.
    """

    def __init__(self, status: int, body: bytes, content_type: str, times: int = 1000) -> None:
        head = (
            f"HTTP/1.1 {status} -\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._response = head.encode() + body
        self.remaining = times

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        if not self.remaining:
            return piece
        if not piece.startswith(b"HTTP/1.1 "):
            return None  # The rest of a replaced response.
        self.remaining -= 1
        return self._response


class Hold:
    """Holds everything back until `release`, which cuts what was held.

    Attributes:
        reached: Set when the first piece is held.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._released = threading.Event()

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        self.reached.set()
        self._released.wait()
        return None

    def release(self) -> None:
        """Cut the held connections, and hold nothing more."""
        self._released.set()


class Repeat:
    """Sends each request a second time, over a connection of its own, before its last piece is forwarded.

    Args:
        port: Of the server.

    Attributes:
        times: Number of repeated requests.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._sent = threading.local()  # One thread forwards the requests of a connection.
        self.times = 0

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        whole = self._sent.pieces = getattr(self._sent, "pieces", b"") + piece
        head, blank, body = whole.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if blank and len(body) >= int(length[1] if length else 0):
            self._sent.pieces = b""
            self.times += 1
            with socket.create_connection(self._target) as connection:
                connection.sendall(whole)
                response = http.client.HTTPResponse(connection, method=request.partition(" ")[0])
                response.begin()
                response.read()
        return piece


class S3Proxy:
    """Forwards connections to a server on 127.0.0.1, in threads of its own.

    Args:
        port: Of the server.
        tls: Makes the proxy speak TLS with its clients.

    Attributes:
        requests: Fault of the pieces to the server.
        responses: Fault of the pieces from the server.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = ("127.0.0.1", port)
        self._tls = tls
        self.requests: Fault = pass_through
        self.responses: Fault = pass_through
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._run(self._accept)

    @property
    def endpoint(self) -> str:
        """`HOST:PORT` of the proxy."""
        return f"127.0.0.1:{self.port}"

    def refuse(self) -> None:
        """Refuse new connections, and cut those that are open."""
        _shut(self._listener)
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _shut(connection)

    def accept(self) -> None:
        """Accept connections again, at the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._run(self._accept)

    def close(self) -> None:
        """Cut everything, and end the threads."""
        for fault in (self.requests, self.responses):
            if isinstance(fault, Hold):
                fault.release()
        self.refuse()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
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
                self._run(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        line = [""]
        back = threading.Thread(target=self._forward, args=(server, client, line, lambda: self.responses))
        with client, server:
            back.start()
            self._forward(client, server, line, lambda: self.requests)
            back.join()
        with self._lock:
            self._open -= {client, server}

    def _forward(self, source: socket.socket, to: socket.socket, line: list[str], fault: Callable[[], Fault]) -> None:
        try:
            while piece := source.recv(PIECE_BYTES):
                start = piece.partition(b"\r\n")[0]
                if start.endswith(b"HTTP/1.1"):
                    line[0] = start.decode()
                forwarded = fault()(line[0], piece)
                if forwarded is None:
                    break
                to.sendall(forwarded)
                if isinstance(forwarded, Last):
                    break
        except OSError:
            pass  # One of the two has gone.
        _shut(source)
        _shut(to)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # It is shut already.
        connection.shutdown(socket.SHUT_RDWR)

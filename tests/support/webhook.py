"""An operator's webhook."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Server that takes notices, or refuses the first of them.

    Attributes:
        refusals: How many it still refuses.
        got: Headers and body of each request.
        came: Set by the first that it takes.
    """

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.came = threading.Event()
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["Receiver"]:
        """Serve on a free port."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                is_refused = receiver.refusals > 0
                receiver.refusals -= is_refused
                self.send_response(503 if is_refused else 204)
                self.end_headers()
                if not is_refused:
                    receiver.came.set()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/risks"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

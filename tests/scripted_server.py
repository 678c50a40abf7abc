"""A small HTTP server that answers as a test tells it: for faults, and to see what a client really sends."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]
KEY = "a-key-that-nobody-may-see"
"""What the models of the tests send; a server of theirs wants it, or shows it."""


class ScriptedServer(ThreadingHTTPServer):
    """Lists `models`; every other request gets `answer`. `asked` are the bodies, `keys` what stood in Authorization."""

    daemon_threads = True

    def __init__(self, *models: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.listing: Answer = answer_json({"object": "list", "data": [{"id": model} for model in models]})
        self.answer: Answer = answer_json({})
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.left = threading.Event()
        """Is set when a client left while `wait_for_ever` kept it waiting."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization", ""))
        self.server.listing(self)

    def do_POST(self) -> None:
        self.server.keys.append(self.headers.get("Authorization", ""))
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def scripted_server(*models: str) -> Iterator[ScriptedServer]:
    """Runs a server on a free loopback port."""
    with ScriptedServer(*models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answer_body(content: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        fields = {"Content-Type": kind, "Content-Length": str(len(content))} | headers
        for name, value in fields.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def answer_json(body: object, status: int = 200, **headers: str) -> Answer:
    return answer_body(json.dumps(body).encode(), status=status, **headers)


def completion(text: str | None, tokens: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
        "logprobs": None if tokens is None else {"content": tokens},
    }
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "any", "choices": [choice]}


def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "any", "choices": [choice]}


def answer_stream(events: Iterable[object], then: Answer = lambda handler: None) -> Answer:
    """Sends events; `then` may keep the connection. It closes without a last word, as a server does that dies."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for event in events:
            content = event if isinstance(event, str) else json.dumps(event)
            handler.wfile.write(f"data: {content}\n\n".encode())
        handler.wfile.flush()
        then(handler)

    return answer


def wait_for_ever(handler: BaseHTTPRequestHandler) -> None:
    """Says nothing until the client leaves."""
    assert isinstance(handler.server, ScriptedServer)
    if handler.connection.recv(1) == b"":
        handler.server.left.set()

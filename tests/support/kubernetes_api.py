"""A cluster's API over HTTP that holds one ConfigMap (list, watch, read, patch), Leases and Events."""

import contextlib
import json
import queue
import socket
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]

_CLUSTER = """\
apiVersion: v1
kind: Config
current-context: fake
clusters: [{{name: fake, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: fake, user: {{token: fake}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
"""


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/avatars/leases"
_METADATA = {"name": "e3rg-variants", "namespace": "avatars"}


class KubernetesApi:
    """API server with the ConfigMap `avatars/e3rg-variants`; a context manager.

    Attributes:
        requests: Path and query of every request.
        watches: Number of watches that were begun.
        leases: By name.
        events: In order.
    """

    name = "avatars/e3rg-variants"

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.watches = 0
        self.leases: dict[str, Object] = {}
        self.events: list[Object] = []
        self._lock = threading.RLock()
        self._version = 100
        self._oldest = 0
        self._held: Object | None = {"metadata": {**_METADATA, "resourceVersion": "100"}}
        self._readers = threading.Barrier(1)
        self._changes: list[tuple[int, Object]] = []
        self._streams: list[queue.Queue[Object | None]] = []
        self._server: _Server | None = None
        self._port = 0

    def __enter__(self) -> "KubernetesApi":
        self.come()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()

    def come(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Server(self, self._port)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def go_away(self) -> None:
        """Cut all watches, and refuse connections."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """End all watches at once."""
        with self._lock:
            for stream in self._streams:
                stream.put(None)

    def forget(self) -> None:
        """Answer 410 to every version before the current one, as after a compaction."""
        with self._lock:
            self._version += 1
            self._oldest = self._version

    def set(self, **data: str) -> None:
        """Change keys of the ConfigMap; names have `_` for `.`."""
        with self._lock:
            self._change({key.replace("_", "."): text for key, text in data.items()})

    def delete(self) -> None:
        """Delete the ConfigMap."""
        with self._lock:
            deleted, self._held = self._held, None
            assert deleted
            self._tell("DELETED", deleted)

    def hold_reads(self, number: int) -> None:
        """Answer reads of an object when so many are there, all of the same version."""
        self._readers = threading.Barrier(number, timeout=60)

    def data(self) -> dict[str, str]:
        """Return the keys of the ConfigMap."""
        with self._lock:
            return dict((self._held or {}).get("data", {}))

    def kubeconfig(self, folder: Path) -> Path:
        """Write the file that clients find this cluster by; return its path."""
        path = folder / "kubeconfig"
        path.write_text(_CLUSTER.format(port=self._port), "utf-8")
        return path

    def list(self) -> Object:
        """Return the list of the namespace's ConfigMaps."""
        with self._lock:
            items = [self._held] if self._held else []
            return {"kind": "ConfigMapList", "metadata": {"resourceVersion": str(self._version)}, "items": items}

    def read(self) -> Object | None:
        """Return the ConfigMap; None where there is none."""
        with self._lock:
            held = self._held
        self._readers.wait()
        return held

    def merge(self, change: Object) -> Object | None:
        """Merge a change; return the ConfigMap, or None where the change is of another version."""
        with self._lock:
            assert self._held
            wanted = change["metadata"].get("resourceVersion")
            if wanted and wanted != self._held["metadata"]["resourceVersion"]:
                return None
            self._change(change["data"])
            return self._held

    def lease(self, name: str) -> Object | None:
        """Return a Lease; None where there is none."""
        with self._lock:
            lease = self.leases.get(name)
        self._readers.wait()
        return lease

    def put_lease(self, name: str, lease: Object, is_new: bool) -> Object | None:
        """Create or replace a Lease; return it, or None where somebody was faster."""
        with self._lock:
            held = self.leases.get(name)
            version = held and held["metadata"]["resourceVersion"]
            if bool(held) == is_new or (held and lease["metadata"]["resourceVersion"] != version):
                return None
            for field in ("acquireTime", "renewTime"):
                datetime.strptime(lease["spec"][field], "%Y-%m-%dT%H:%M:%S.%fZ")
            self._version += 1
            metadata = {"name": name, "namespace": "avatars", "resourceVersion": str(self._version)}
            self.leases[name] = {"metadata": metadata, "spec": lease["spec"]}
            return self.leases[name]

    def watch(self, since: int) -> "queue.Queue[Object | None] | None":
        """Return a stream of changes after a version, which None ends; None when the version is too old."""
        with self._lock:
            if since < self._oldest:
                return None
            self.watches += 1
            stream: queue.Queue[Object | None] = queue.Queue()
            for version, change in self._changes:
                if version > since:
                    stream.put(change)
            self._streams.append(stream)
            return stream

    def _change(self, data: dict[str, str]) -> None:
        before = self._held or {"metadata": _METADATA}
        self._held = {**before, "data": {**before.get("data", {}), **data}}
        self._tell("MODIFIED", self._held)

    def _tell(self, kind: str, held: Object) -> None:
        self._version += 1
        held["metadata"] = {**held["metadata"], "resourceVersion": str(self._version)}
        change = {"type": kind, "object": held}
        self._changes.append((self._version, change))
        for stream in self._streams:
            stream.put(change)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: KubernetesApi, port: int) -> None:
        self.api = api
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def hang_up(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # Its client has gone, or it was cut off.


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.server.api.requests.append(self.path)
        if url.path.startswith(_LEASES):
            lease = self.server.api.lease(url.path.removeprefix(f"{_LEASES}/"))
            self._answer(200 if lease else 404, lease or {"reason": "NotFound"})
        elif url.path != "/api/v1/namespaces/avatars/configmaps":
            held = self.server.api.read() if url.path.endswith("/configmaps/e3rg-variants") else None
            self._answer(200 if held else 404, held or {"reason": "NotFound"})
        elif asked.get("fieldSelector") != "metadata.name=e3rg-variants":
            self._answer(403, {"reason": "Forbidden"})
        elif asked.get("watch") in ("true", "True"):
            self._stream(self.server.api.watch(int(asked["resourceVersion"])))
        else:
            self._answer(200, self.server.api.list())

    def do_POST(self) -> None:
        made, path = self._body(), urlsplit(self.path).path
        if path == _LEASES:
            lease = self.server.api.put_lease(made["metadata"]["name"], made, is_new=True)
            self._answer(201 if lease else 409, lease or {"reason": "AlreadyExists"})
        else:
            assert path == "/api/v1/namespaces/avatars/events"
            self.server.api.events.append(made)
            self._answer(201, made)

    def do_PUT(self) -> None:
        name = urlsplit(self.path).path.removeprefix(f"{_LEASES}/")
        lease = self.server.api.put_lease(name, self._body(), is_new=False)
        self._answer(200 if lease else 409, lease or {"reason": "Conflict"})

    def do_PATCH(self) -> None:
        assert "patch+json" in self.headers["Content-Type"]
        change = self._body()
        held = self.server.api.merge(change)
        self._answer(200 if held else 409, held or {"reason": "Conflict"})

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, changes: "queue.Queue[Object | None] | None") -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if changes is None:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            self._chunk({"type": "ERROR", "object": gone})
        while changes and (change := changes.get()) is not None:
            self._chunk(change)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, change: Object) -> None:
        line = json.dumps(change).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

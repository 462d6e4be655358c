"""A datasets API and its file store on this machine, with faults that happen exactly where a test puts them."""

import json
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

KEY = "a-key"
PIECE = 16 * 1024


@dataclass
class Fault:
    """What goes wrong with one request for a file's bytes (or one API call, then only `status`)."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    reset_after: int | None = None
    """Bytes of the body after which the connection is reset."""
    expire: bool = False
    """All links expire when the fault's bytes are served."""
    length_error: int = 0
    """Added to the Content-Length that is announced."""
    ignore_range: bool = False
    cut: int | None = None
    """The file ends after so many bytes, consistently announced."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing when a client goes away."""


class S2Server:
    """Serves `content[release][dataset][name] = bytes` and `diffs[(from, to)][dataset] = (updates, deletes)`.

    A file is known by `<release>/<dataset>/<name>`; `faults` of a file are used up in order, one a request, probes of
    one byte aside; `api_faults` likewise by API call.
    """

    def __init__(self) -> None:
        self.content: dict[str, dict[str, dict[str, bytes]]] = {}
        self.diffs: dict[tuple[str, str], dict[str, tuple[dict[str, bytes], dict[str, bytes]]]] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.api_faults: list[Fault] = []
        self.ranges = True
        self.on_bytes: Callable[[int], None] = lambda total: None
        self.on_listed: Callable[[int], None] = lambda times: None
        self.piece_s = 0.0
        self.most: int | None = None
        """Bytes sent for each request, whatever the range that is announced; None: all."""
        self.drip_s: float | None = None
        """Every body comes a byte at a time, so many seconds apart."""
        self.said: bytes | None = None
        """What every API call answers."""
        self.served: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.calls: list[tuple[float, str]] = []
        self.leaked: list[str] = []
        self._generation = 0
        self._lock = threading.Lock()

    def __enter__(self) -> "S2Server":
        self._http = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._http.daemon_threads = True
        self.host = f"http://127.0.0.1:{self._http.server_port}"
        self.url = f"{self.host}/datasets/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def expire(self) -> None:
        """Lets every link that was given out answer 403."""
        self._generation += 1

    def link(self, name: str) -> str:
        owner, folder, file = name.split("/", 2)
        quoted = quote(file, safe="/" if "_" in owner else "")
        return f"{self.host}/files/{owner}/{folder}/{quoted}?signature={self._generation}"

    def good(self, signature: str) -> bool:
        return signature == str(self._generation)

    def find(self, name: str) -> bytes | None:
        """The bytes of `<release>/<dataset>/<name>` or `<from>_<to>/<dataset>/<updates or deletes>/<name>`."""
        owner, dataset, file = name.split("/", 2)
        if "_" in owner:
            start, end = owner.split("_")
            kind, _, file = file.partition("/")
            return self.diffs[start, end][dataset][kind == "deletes"].get(file)
        return self.content.get(owner, {}).get(dataset, {}).get(file)

    def count(self, name: str, size: int) -> None:
        with self._lock:
            self.served[name] += size
            total = self.served.total()
        self.on_bytes(total)

    def answer(self, path: str) -> Any:
        """JSON of an API call; None: there is no such thing."""
        parts = path.removeprefix("/datasets/v1/").split("/")
        match parts:
            case ["release", ""]:
                return sorted(self.content)
            case ["release", release] if release in self.content:
                return {"release_id": release, "README": "", "datasets": [{"name": d} for d in self.content[release]]}
            case ["release", release, "dataset", dataset] if dataset in self.content.get(release, {}):
                self.on_listed(sum(called.endswith(f"/dataset/{dataset}") for _, called in self.calls))
                names = [f"{release}/{dataset}/{name}" for name in self.content[release][dataset]]
                return {"name": dataset, "files": [self.link(name) for name in names]}
            case ["diffs", start, "to", end, dataset]:
                pairs = [pair for pair in sorted(self.diffs) if start <= pair[0] and pair[1] <= end]
                return {"dataset": dataset, "diffs": [self._diff(pair, dataset) for pair in pairs]} if pairs else None
            case _:
                return None

    def _diff(self, pair: tuple[str, str], dataset: str) -> dict[str, Any]:
        updates, deletes = self.diffs[pair][dataset]
        base = f"{'_'.join(pair)}/{dataset}"
        return {
            "from_release": pair[0],
            "to_release": pair[1],
            "update_files": [self.link(f"{base}/updates/{name}") for name in updates],
            "delete_files": [self.link(f"{base}/deletes/{name}") for name in deletes],
        }


class _Handler(BaseHTTPRequestHandler):
    owner: S2Server
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def setup(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path.startswith("/files/"):
            self._file(unquote(parts.path.removeprefix("/files/")), parse_qs(parts.query).get("signature", [""])[0])
        else:
            self._api(parts.path)

    def _api(self, path: str) -> None:
        owner = self.owner
        owner.calls.append((time.monotonic(), path))
        fault = owner.api_faults.pop(0) if owner.api_faults else Fault()
        if fault.status:
            return self._say(fault.status, b"{}", fault.headers)
        if owner.said is not None:
            return self._say(200, owner.said)
        if ("/dataset/" in path or "/diffs/" in path) and self.headers.get("x-api-key") != KEY:
            return self._say(403, b'{"message":"Forbidden"}')
        answer = owner.answer(path)
        return self._say(404 if answer is None else 200, json.dumps(answer).encode())

    def _file(self, name: str, signature: str) -> None:
        owner, asked = self.owner, self.headers.get("range", "")
        owner.leaked += [value for value in [self.headers.get("x-api-key")] if value]
        probe = asked == "bytes=0-0"
        if not probe:
            owner.requests[name] += 1
        fault = owner.faults[name].pop(0) if owner.faults[name] and not probe else Fault()
        data = owner.find(name)
        if not owner.good(signature):
            return self._say(403, b"<Error><Code>AccessDenied</Code></Error>")
        if data is None:
            return self._say(404, b"")
        if fault.status:
            return self._say(fault.status, b"", fault.headers)
        return self._bytes(name, data[: fault.cut], asked, fault)

    def _bytes(self, name: str, data: bytes, asked: str, fault: Fault) -> None:
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        headers = {"ETag": f'"{hash(data) & 0xFFFF:x}"'} if fault.cut is None else {}
        status, first, last = 200, 0, len(data)
        if span and self.owner.ranges and not fault.ignore_range:
            first, last = int(span[1]), min(int(span[2]) + 1 if span[2] else len(data), len(data))
            if first >= len(data):
                return self._say(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{len(data)}"
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        body = memoryview(data)[first:last][: self.owner.most if last - first > 1 else None]
        self.send_header("Content-Length", str(len(body) + fault.length_error))
        self.end_headers()
        return self._drip(name, body) if self.owner.drip_s else self._body(name, body, fault)

    def _drip(self, name: str, body: memoryview) -> None:
        with suppress(OSError):
            for place in range(len(body)):
                self.wfile.write(body[place : place + 1])
                self.owner.count(name, 1)
                time.sleep(self.owner.drip_s or 0)
        self.close_connection = True

    def _body(self, name: str, body: memoryview, fault: Fault) -> None:
        end = len(body) if fault.reset_after is None else fault.reset_after
        try:
            for start in range(0, min(end, len(body)), PIECE):
                piece = body[start : min(start + PIECE, end)]
                self.wfile.write(piece)
                self.owner.count(name, len(piece))
                if self.owner.piece_s:
                    time.sleep(self.owner.piece_s)
        except OSError:
            self.close_connection = True
        if fault.expire:
            self.owner.expire()
        if fault.reset_after is not None:
            self.request.shutdown(socket.SHUT_RDWR)
        if fault.length_error or fault.reset_after is not None:
            self.close_connection = True

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

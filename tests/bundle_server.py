"""A local server for downloads that misbehaves as told, over HTTP or HTTPS."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Serves `content`, and misbehaves as told."""

    daemon_threads = True
    scheme = "http"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = b""
        self.etag: str | None = '"one"'
        self.breaks: list[int] = []  # bytes after which an answer breaks off, one for each request
        self.refusals: list[int] = []
        self.ranges = True
        self.redirect: str | None = None
        self.encoded = False
        self.asked: list[str | None] = []
        self.raw: list[bytes] = []  # whole answers, for as many requests
        self.silent = 0.0  # seconds that such an answer's connection stays open

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/b.ldb?token=hidden"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if server.raw:
            self.wfile.write(server.raw.pop(0))
            time.sleep(server.silent)
            self.close_connection = True
            return
        if server.redirect is not None:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.end_headers()
            return
        if server.refusals:
            self.send_error(server.refusals.pop(0))
            return
        start = 0
        same = self.headers.get("If-Range") == server.etag
        if wanted and server.ranges and same:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            end = len(server.content)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.encoded:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks:
            body = body[: server.breaks.pop(0)]
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def running(server: Server, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serves from a thread; over TLS with a context."""
    with server:
        if context is not None:
            server.scheme = "https"
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

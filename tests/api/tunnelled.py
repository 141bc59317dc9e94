"""A program for the inside of a devbox that answers in all the ways a tunnel has to pass on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.api.devbox import DevboxOverHttp, eventually, good

PROGRAM = r"""
import hashlib, base64, json, os, socket, sys, threading, time

def head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return None, b""
        data += piece
    return data.partition(b"\r\n\r\n")[::2]

def fields(text):
    first, *lines = text.decode("latin-1").split("\r\n")
    return first.split(" "), [line.split(": ", 1) for line in lines]

def value(headers, wanted):
    return next((value for name, value in headers if name == wanted), "")

def body(sock, rest, headers):
    if value(headers, "transfer-encoding") == "chunked":
        stream = sock.makefile("rb")
        data = rest
        while not data.endswith(b"0\r\n\r\n"):
            data += sock.recv(65536)
        out = b""
        while data:
            size, _, data = data.partition(b"\r\n")
            size = int(size, 16)
            out += data[:size]
            data = data[size + 2:]
        return out
    left = int(value(headers, "content-length") or 0)
    digest, size = hashlib.sha256(), 0
    data = rest
    whole = b""
    while True:
        digest.update(data)
        size += len(data)
        whole = (whole + data)[:1000]
        if size >= left:
            return whole if left < 1000 else digest.hexdigest().encode() + b" %d" % size
        data = sock.recv(65536)
        if not data:
            return b"cut"

def plain(sock, content, extra=b"", status=b"200 OK"):
    sized = b"content-length: %d\r\n\r\n" % len(content)
    sock.sendall(b"HTTP/1.1 " + status + b"\r\n" + extra + sized + content)

def serve(sock):
    with sock:
        text, rest = head(sock)
        if text is None:
            return
        (method, target, version), headers = fields(text)
        path = target.partition("?")[0]
        if path == "/echo":
            answer = {"method": method, "target": target, "headers": headers,
                      "body": body(sock, rest, headers).decode("latin-1")}
            plain(sock, json.dumps(answer).encode(), b"set-cookie: a=b\r\ncontent-type: application/json\r\n")
        elif path == "/chunks":
            sock.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for number in range(3):
                sock.sendall(b"7\r\nchunk %d\r\n" % number)
            sock.sendall(b"0\r\n\r\n")
        elif path == "/events":
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: first\n\n")
            while not os.path.exists(NOTE + ".go"):
                time.sleep(0.01)
            sock.sendall(b"data: second\n\n")
        elif path == "/large":
            size = int(target.partition("?")[2])
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
            sent = 0
            while sent < size:
                sent += sock.send(b"x" * min(65536, size - sent))
                with open(NOTE + ".sent", "w") as note:
                    note.write(str(sent))
        elif path == "/cut":
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this")
        elif path == "/early":
            plain(sock, b"no", status=b"413 Too Large")
        elif path == "/raw":
            sock.sendall(bytes.fromhex(target.partition("?")[2]))
        elif path == "/endless":
            sock.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                sock.sendall(b"x: " + b"y" * 1000 + b"\r\n")
        elif path == "/silent":
            sock.recv(1)
        elif path == "/left":
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nbegun")
            sock.recv(1)
            open(NOTE + ".left", "w").close()
        elif path == "/socket":
            accept = base64.b64encode(hashlib.sha1((value(headers, "sec-websocket-key")
                + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                         b"sec-websocket-accept: " + accept + b"\r\n\r\n")
            data = rest
            while True:
                data += sock.recv(65536)
                if not data:
                    return
                # Frames of a client are masked; back they go without.
                while len(data) >= 6:
                    size, start = data[1] & 127, 2
                    if size == 126:
                        size, start = int.from_bytes(data[2:4], "big"), 4
                    elif size == 127:
                        size, start = int.from_bytes(data[2:10], "big"), 10
                    if len(data) < start + 4 + size:
                        break
                    mask, payload = data[start:start + 4], data[start + 4:start + 4 + size]
                    plain_text = bytes(a ^ mask[i % 4] for i, a in enumerate(payload))
                    sock.sendall(data[:1] + bytes([data[1] & 127]) + data[2:start] + plain_text)
                    data = data[start + 4 + size:]
        elif path == "/pipe":
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: pipe\r\nconnection: upgrade\r\n\r\n")
            data = rest
            while piece := sock.recv(65536):
                data += piece
            sock.sendall(data.upper() + b" THE END")
        else:
            plain(sock, b"hello from " + path.encode())

NOTE = sys.argv[1]
server = socket.create_server(("127.0.0.1", 0), backlog=256)
with open(NOTE + ".port", "w") as note:
    note.write(str(server.getsockname()[1]))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


class Tunnelled:
    """A devbox with a program in it, and a tunnel to that."""

    def __init__(self, devbox: DevboxOverHttp, port: int, view: dict[str, Any]) -> None:
        self.devbox = devbox
        self.port = port
        self.view = view
        self.path = f"/tunnel/{view['tunnel_key']}/{port}"
        self.host = f"{port}-{view['tunnel_key']}.tunnel.yard.test"


def listening(devbox: DevboxOverHttp) -> int:
    """Start the program; its port."""
    good(devbox.post("write_file_contents", {"file_path": "program.py", "contents": PROGRAM}))
    devbox.run("rm -f note.port")
    devbox.start('exec python3 program.py "$HOME/note"')
    eventually(lambda: devbox.run("test -s note.port")["exit_status"] == 0, "the program's port")
    return int(devbox.run("cat note.port")["stdout"])


def tunnelled(devbox: DevboxOverHttp, **request: Any) -> Tunnelled:
    """A tunnel to the program, which is started."""
    return Tunnelled(devbox, listening(devbox), good(devbox.post("enable_tunnel", request)))


@contextmanager
def raw(url: str) -> Iterator[socket.socket]:
    """A plain connection to a server."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), timeout=30) as connection:
        yield connection


def echoed(response: httpx.Response) -> dict[str, Any]:
    """What the program says it got; its headers as one mapping."""
    told = good(response)
    told["names"] = [name for name, _ in told["headers"]]
    told["headers"] = dict(told["headers"])
    return told

cat > server.py <<'END'
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/health":
            self.say(200, "ok")
        elif url.path == "/sum":
            given = parse_qs(url.query)
            self.say(200, str(int(given["a"][0]) + int(given["b"][0])))
        else:
            self.say(404, "not here")

    def say(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", 18080), Handler).serve_forever()
END
setsid nohup python3 server.py > server.log 2>&1 < /dev/null &
python3 - <<'END'
import socket, time

deadline = time.monotonic() + 10
while time.monotonic() < deadline:
    try:
        socket.create_connection(("127.0.0.1", 18080)).close()
        break
    except OSError:
        time.sleep(0.05)
END

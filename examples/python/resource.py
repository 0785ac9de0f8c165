"""A number behind HTTP that refuses stale tokens: the resource of worker.py.

    python3 resource.py PORT

GET answers {"count": N}, and PUT sets it. Both take a token in Leasehold-Token: one that is
smaller than one it has seen is refused with 409. A reader that only looks sends none, or 0.
"""

import http.server
import json
import sys
import threading

seen, count, both = 0, 0, threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.token()
        with both:  # from this read on, the writes of earlier holders are refused
            if token == 0 or self.admits(token):
                self.answer(200, {"count": count})

    def do_PUT(self):
        global count
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = self.token()
        with both:  # the check and the write are one step
            if self.admits(token):
                count = body["count"]
                self.answer(200, {"count": count})

    def token(self):
        text = self.headers.get("Leasehold-Token") or ""
        return int(text) if text.isdecimal() else 0  # a number: text compares otherwise

    def admits(self, token):
        """Remembers a token, or refuses one that is stale. The caller has the lock."""
        global seen
        if token < seen:
            self.answer(409, {"error": "token %d is stale: %d was seen" % (token, seen)})
            return False
        seen = token
        return True

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()

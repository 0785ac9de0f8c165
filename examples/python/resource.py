"""A number behind HTTP that refuses stale tokens: the resource of worker.py.

    python3 resource.py PORT

GET answers {"count": N}. PUT sets it, with the writer's token in Leasehold-Token: a token
that is smaller than one it has seen is refused with 409.
"""

import http.server
import json
import sys
import threading

seen, count, both = 0, 0, threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with both:
            self.answer(200, {"count": count})

    def do_PUT(self):
        global seen, count
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = int(self.headers.get("Leasehold-Token", "0"))  # a number: text compares otherwise
        with both:  # the check and the write are one step
            if token < seen:
                self.answer(409, {"error": "token %d is stale: %d was seen" % (token, seen)})
                return
            seen, count = token, body["count"]
        self.answer(200, {"count": body["count"]})

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

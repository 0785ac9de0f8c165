"""Adds to a number that a resource keeps, under a lock of `leasehold serve`.

    leasehold serve &
    python3 resource.py 7421 &
    python3 worker.py http://127.0.0.1:7420 counter http://127.0.0.1:7421

It works only while it certainly holds the lock, and shows its token to the resource with
each read and write. It needs Python 3.9 and nothing else. Exit code 75: the lock was lost.

In the environment: ROUNDS, how often to add (default 1); SECONDS, how long the work of a
round takes (default 0.01); TTL, of the lock (default 10s); LEASEHOLD_TOKEN, the token of
this caller, if the service asks for one.
"""

import http.client
import json
import os
import secrets
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request


class Lost(Exception):
    """The lock is not certainly held any more. Stop what depends on it."""


def now():
    """Seconds of a clock that also counts while the machine sleeps, where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def request(method, url, body=None, headers={}, timeout=35):
    """Returns the status and the answer. Status 0: no answer came, or a part of one."""
    data = None if body is None else json.dumps(body).encode()
    req = urllib.request.Request(url, data, headers, method=method)
    try:
        try:
            answer = urllib.request.urlopen(req, timeout=timeout)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            status, text = answer.status, answer.read()
    except (OSError, http.client.HTTPException) as err:
        return 0, {"error": str(err)}
    try:
        return status, json.loads(text)
    except ValueError:
        return 0 if status == 200 else status, {"error": text.decode(errors="replace")}


def unknown(status):
    """Whether nothing was learned: no answer, one of a balancer (502, 504), or no engine."""
    return status == 0 or status >= 500 and status != 501


class Lease:
    """A lock for a with statement. A thread renews it."""

    def __init__(self, service, name, ttl="10s", wait=60, token=None):
        self._url = service + "/v1/locks/" + urllib.parse.quote(name, safe="")
        self._ask = {"ttl": ttl, "label": "worker.py"}
        self._wait = wait
        self._caller = {"Authorization": "Bearer " + token} if token else {}
        self._over = threading.Event()
        self._lost = None

    def __enter__(self):
        # One key for all tries: they are one claim, which keeps its place.
        headers = dict(self._caller, **{"Idempotency-Key": secrets.token_hex(16)})
        end = now() + self._wait
        while True:
            sent = now()  # before the request: the time of the answer counts from here
            left = max(1, int((end - sent) * 1000))
            status, answer = request("POST", self._url, dict(self._ask, wait="%dms" % left), headers)
            if status == 200:
                break
            if unknown(status) and sent < end:
                time.sleep(0.5)
            elif status != 202:
                raise RuntimeError("no lock: %d %s" % (status, answer["error"]))
        self.token = answer.get("token")
        self._handle = {"Authorization": "Bearer " + answer["handle"]}
        self._until = sent + answer["trusted_seconds"]
        self._every = answer["ttl_seconds"] / 3
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()
        return self

    def _renew(self):
        pause = self._every
        while not self._over.wait(pause) and now() < self._until:
            sent = now()
            status, answer = request("PUT", self._url, {}, self._handle, self._every)
            pause = self._every
            if status == 200:
                self._until = sent + answer["trusted_seconds"]
            elif unknown(status) or status == 429:
                pause = self._every / 5  # ask again soon
            else:
                self._lost = answer["error"]
                return

    def check(self):
        """Raises Lost unless the lock is certainly held. Call it before each step."""
        if self._lost:
            raise Lost(self._lost)
        if now() >= self._until:
            raise Lost("no renewal has succeeded in time")

    def __exit__(self, *_):
        self._over.set()
        self._renewing.join()
        request("DELETE", self._url, None, self._handle, 5)  # unanswered: it ends by its TTL


def fenced(lease, method, resource, body=None):
    """A request that shows the lease's token to the resource."""
    if not lease.token:
        raise RuntimeError("the lock has no token: no resource can refuse its late holder")
    status, answer = request(method, resource, body, {"Leasehold-Token": lease.token})
    if status == 409:
        raise Lost("the resource has seen a newer token")
    if status != 200:
        raise RuntimeError("%s failed: %d %s" % (method, status, answer))
    return answer


def add(lease, resource, seconds):
    """Adds 1, in many steps. Between a check and its step the lock can end: that is why
    the resource looks at the token too. The read shows it as well: without that, an earlier
    holder could still write between this read and this write."""
    count = fenced(lease, "GET", resource)["count"]
    print("working", flush=True)
    end = now() + seconds
    while now() < end:
        lease.check()
        time.sleep(0.01)  # a step of the work
    lease.check()
    fenced(lease, "PUT", resource, {"count": count + 1})


def main():
    service, name, resource = sys.argv[1:4]
    env = os.environ
    for _ in range(int(env.get("ROUNDS", "1"))):
        with Lease(service, name, env.get("TTL", "10s"), token=env.get("LEASEHOLD_TOKEN")) as lease:
            add(lease, resource, float(env.get("SECONDS", "0.01")))


if __name__ == "__main__":
    try:
        main()
    except Lost as err:
        print("lost:", err, flush=True)
        sys.exit(75)

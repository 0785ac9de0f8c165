"""What the generated client and the service say to each other: every request once.

    contract.py SERVICE TOKEN-OF-APP TOKEN-OF-OPERATOR
"""

import secrets
import sys
import threading
import time

from leasehold_client import AuthenticatedClient
from leasehold_client.api.health import describe, ready
from leasehold_client.api.locks import lock, lock_named_in_body, release, release_by_handle, renew, renew_by_handle
from leasehold_client.api.queues import explain, list_queues, revoke, show_queue
from leasehold_client.models import (
    Busy, Explanation, Held, LockRequest, Lost, Nothing, Problem, Queue, Queues, Released, Renewed, RenewRequest,
    RevokeRequest,
)

service, app_token, operator_token = sys.argv[1:]
name = "contract/a b"


def client(secret):
    return AuthenticatedClient(service, secret, raise_on_unexpected_status=True, timeout=40)


app, operator = client(app_token), client(operator_token)


def is_a(kind, answer):
    assert isinstance(answer, kind), "want %s, got %r" % (kind.__name__, answer)
    return answer


is_a(Nothing, ready.sync(client=app))
assert describe.sync(client=app)["openapi"] == "3.1.0"

# lock, busy, wait
first = is_a(Held, lock.sync(name, client=app, body=LockRequest(ttl="20s", label="first")))
assert first.name == name and 0 < first.trusted_seconds <= first.ttl_seconds == 20, first
busy = is_a(Busy, lock.sync(name, client=operator))
assert [h.owner.label for h in busy.holders] == ["first"] and busy.holders[0].owner.host == "app", busy

key, late = secrets.token_hex(16), []
waits = LockRequest(ttl="20s", wait="20s")
thread = threading.Thread(target=lambda: late.append(lock.sync(name, client=operator, body=waits, idempotency_key=key)))
thread.start()
while len(is_a(Queue, show_queue.sync(name, client=app)).claims) < 2:
    time.sleep(0.01)
why = is_a(Explanation, explain.sync(name, client=app))
assert [h.owner.label for h in why.holders] == ["first"] and not why.cycle, why
is_a(Released, release.sync(name, client=client(first.handle)))
thread.join()
second = is_a(Held, late[0])
assert int(second.token) > int(first.token), (first, second)
again = is_a(Held, lock.sync(name, client=operator, body=waits, idempotency_key=key))
assert (again.handle, again.token) == (second.handle, second.token), "the same key is the same claim"

# renew, queues
renewed = is_a(Renewed, renew.sync(name, client=client(second.handle), body=RenewRequest(ttl="30s")))
assert renewed.ttl_seconds == 30 and renewed.token == second.token, renewed
is_a(Renewed, renew_by_handle.sync(client=client(second.handle)))
(queue,) = is_a(Queues, list_queues.sync(client=app, prefix="contract/")).queues
(claim,) = queue.claims
assert claim.token == second.token and claim.state == "held", claim

# revoke, lost
ask = RevokeRequest(name, claim.ticket)
refused = revoke.sync_detailed(client=app, body=ask)
assert refused.status_code == 403 and "revoke" in is_a(Problem, refused.parsed).error, refused
is_a(Nothing, revoke.sync(client=operator, body=ask))
lost = is_a(Lost, renew.sync(name, client=client(second.handle)))
assert lost.reason == "revoked", lost
release.sync(name, client=client(second.handle))
gone = revoke.sync_detailed(client=operator, body=ask)
assert gone.status_code == 404 and is_a(Problem, gone.parsed), gone

# the name in the body; release, and once more
third = is_a(Held, lock_named_in_body.sync(client=app, body=LockRequest(name="../contract")))
is_a(Released, release_by_handle.sync(client=client(third.handle)))
assert is_a(Lost, release_by_handle.sync(client=client(third.handle))).reason == "ended"

stranger = lock.sync_detailed(name, client=client("lht_nobody"))
assert stranger.status_code == 401 and is_a(Problem, stranger.parsed).error, stranger
print("kept")

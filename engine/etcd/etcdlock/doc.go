// Package etcdlock keeps queues in etcd, from 3.5.28 and 3.6.9 on.
//
// Claims are served first come, first served between all processes. A claim is a key. Its
// place is the key's create revision: that is its ticket, which only rises. A waiter
// watches the one key that must go before it can hold, and no other waiter is notified of
// that.
//
//	leasehold/line/jobs\x00...         create revision
//	  writer A   41  holds
//	  writer B   42  watches A
//	  reader C   45  watches B
//	  reader D   47  watches B
//
// # What it promises
//
//   - At most the limit hold while etcd keeps what it committed, even if any of its
//     members are lost or cut off. An etcd without a majority grants nothing, and leases
//     of holders end by their own clocks meanwhile. A leader that stood still, and goes on
//     after another was elected, ends no claim but detached ones.
//
//   - Tokens rise until somebody restores a backup. Even then no client grants a token
//     that is not above all that it saw itself.
//
//   - A dead client's claims are free when their etcd lease has ended. That is six fifths
//     of the TTL, in whole seconds, and half a second more until etcd has noticed.
//
//   - A holder that is cut off has lost before another holds. All claims of a client with
//     one TTL live by one etcd lease, which single requests keep alive. Trust counts from
//     when the last request that succeeded was SENT:
//
//     trusted until = start of the Join or Renew + TTL - margin, where
//     start + TTL  <=  start of the last keep-alive + the TTL in its answer
//
// The engine uses neither the library's Session nor the server's lock service. The first
// counts from when an answer came, which may be much later. The second has answered that a
// lock is held whose lease had ended.
//
//   - A stopped or slow member costs a call some two seconds, and no lease: the client
//     asks another member. A request that the slow member carries out later does no harm.
//
// # What it cannot promise
//
//   - A restored backup takes the queue back with it. Holders since then learn that at their
//     next renewal, a third of the TTL away at most, and until then two may hold. If keys
//     of claims come back that had left, their client deletes them. Restore with etcdutl's
//     --bump-revision and --mark-compacted. Otherwise tokens would begin again from the
//     backup's revision, and living clients refuse every Join until it is above what they
//     saw. A program that starts later did not see it. The engine declares
//     [engine.FencingAlways] because no crash and no restart does that, only an operator.
//   - A leader may stand still for longer than an etcd lease lasts, and go on after another
//     was elected. Then it may have leases ended that their clients renew at the other one
//     (etcd issue 15247). Claims of a session have a lease that it does not know by then. A
//     detached claim has a lease of its own, which may end: until the next renewal of its
//     owner two may hold. Their tokens differ.
//   - A user who may write below the prefix may delete the key of a holder. The holder
//     learns that at its next renewal.
//   - A full etcd (NOSPACE) takes no new claims. It still renews, notifies and removes
//     those in the queue, but only until its leader changes or its member restarts. Then it
//     refuses the new etcd lease that they need (see the first promise), and holders lose
//     theirs within a TTL, unless space is freed and the alarm disarmed by then.
//
// Open refuses older servers. There a replaced leader could end leases that were alive,
// and could answer the renewal of an ended lease with success. Options.AllowOld accepts
// that two may hold.
//
// # TTL
//
// The engine grants a claim the TTL that it asked for, from its first moment on. Each
// class of TTL in use has an etcd lease, which is opened at its first use and revoked a
// minute after its last. TTLs that differ by less than a tenth share one. There are eight
// at most; the engine refuses a ninth. The shortest TTL is five sixths of the shortest
// lease that etcd grants, which is one and a half of its election time-outs; the engine
// refuses less. A detached claim has an etcd lease of its own; one more request renews a
// hundred of those. It cannot be made longer, nor shorter while the claim waits: Renew grants a
// detached claim the TTL of its Join.
//
// # What it costs
//
// An uncontended lock and unlock are two requests, of which the callers of one process
// share some when they are many. A hand-over is five, with any number of waiters. The cost
// of a waiter's renewal does not depend on the length of the queue. A Join reads the keys
// of its queue, some hundred bytes for each claim. It reads none if the client's last claim
// left the queue vacant; if it is not any more, the Join costs one request more. So does each
// detached Join of a name that is not vacant: another client may have made its claim, or the one
// that it replaces, and it looks for both by their IDs. In a
// crowd of one client many other Joins share a reading, and few are under way at once. A client
// sends one keep-alive and one read for each sixth of each of its etcd leases, however many
// claims it has. After a change of the leader it writes the key of each claim once more. A
// renewal reads the keys of a hundred claims with each request.
//
// etcd keeps old revisions until it is compacted, and a Join passes over them: some keys
// for each client that ever claimed the name. Let etcd compact
// (--auto-compaction-retention).
//
// # Keys
//
// All keys are below the prefix, "leasehold/" by default:
//
//   - line/ has the claims.
//   - note/ has the notifications between clients.
//   - void/ has a key for each etcd lease of a client that ever gave up a Join without an
//     answer, for as long as the lease lives. With that key etcd refuses the Join if it
//     still arrives. For some seconds it also has a key for each Revoke that marks a claim.
//
// A user who may read there can read claim IDs, and with them end claims: give the prefix
// to nobody else. A name that nobody claims leaves no key. The engine refuses two kinds of
// keys of other programs when it meets them, and names them. One is a key without a lease,
// which would never end. The other is a key that is no claim, if the engine searches for
// claims with another limit.
//
// # The least a user needs
//
// A role that may read and write below the prefix, and nothing else:
//
//	etcdctl role add leasehold
//	etcdctl role grant-permission leasehold readwrite leasehold/ --prefix
//	etcdctl user grant-role USER leasehold
//
// Open refuses a user without it. etcd lets every user grant leases, and revoke only those
// whose keys it may write.
package etcdlock

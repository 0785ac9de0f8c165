// Package etcdlock keeps queues in etcd, from 3.5.28 and 3.6.9 on.
//
// Claims are served first come, first served between all processes. A claim is a
// key, and its place is the key's create revision: that is its ticket, which only
// rises. Who waits watches the one key that must go before it can hold, and no
// other waiter hears of that.
//
//	leasehold/line/jobs\x00...         create revision
//	  writer A   41  holds
//	  writer B   42  watches A
//	  reader C   45  watches B
//	  reader D   47  watches B
//
// # What it promises
//
//   - At most the limit hold, while etcd keeps what it committed, whichever of its
//     members are lost or cut off. An etcd without a majority grants nothing, and
//     holders end by their own clocks in the meantime.
//
//   - Tokens rise, until a backup is put back; and even then no client grants one
//     that is not above all that it saw itself.
//
//   - A dead client's claims are free when their etcd lease has ended: six fifths of
//     the TTL, in whole seconds, and half a second more until etcd has noticed.
//
//   - A holder that is cut off has lost before another holds. All of a client's
//     claims with one TTL live by one etcd lease, kept alive by single requests, and
//     what is trusted is counted from when the last one that succeeded was SENT:
//
//     trusted until = start of the Join or Renew + TTL - margin, where
//     start + TTL  <=  start of the last keep-alive + the TTL in its answer
//
// Neither the library's Session nor the server's lock service is used. The first
// counts from when an answer came, which may be much later; the second has
// answered that a lock is held whose lease had ended.
//
//   - A member that is stopped or slow costs a call some two seconds, and no lease:
//     what it does not answer is asked again, of another. What it carries out later
//     is in nobody's way.
//
// What it cannot promise:
//
//   - A backup that is put back takes the queue with it as it was then. Holders
//     of since then are told at their next renewal, a third of the TTL away at
//     most, and until then two may hold. Keys that come back of claims that had left
//     are deleted by their client. Restore with etcdutl's --bump-revision and
//     --mark-compacted: else tokens would begin again from the backup's revision,
//     and clients that live on refuse every Join until it is above what they saw.
//     A program that starts later did not see it. [engine.FencingAlways] is declared
//     because neither a crash nor a restart does that, only an operator.
//   - Whoever may write below the prefix may delete the key of a holder. It is
//     told at its next renewal.
//   - A full etcd (NOSPACE) takes no new claims. Those in the queue are renewed, told
//     and left.
//
// Older servers are refused: a leader that had been replaced could end leases that
// were alive, and a renewal of a lease that had ended could be answered with
// success. Options.AllowOld accepts that two may hold.
//
// # TTL
//
// A claim is granted the TTL that it asked for, from its first moment on. Each class of
// TTL that is in use has an etcd lease, opened at its first use and given up a minute after
// its last: TTLs that differ by less than a tenth share one, and there are eight at most;
// who asks for a ninth is refused in words. The shortest TTL is five sixths of the shortest
// lease that etcd grants, one and a half of its election time-outs: less is refused. A
// detached claim has an etcd lease of its own; a hundred of those are renewed with one more
// request.
//
// # What it costs
//
// A lock and unlock that nobody contends are two requests, of which the callers of
// one process share some when they are many. A hand-over is five, however many wait,
// and what a renewal asks does not depend on the length of the queue for who waits. A
// Join reads the keys of the queue it joins, some hundred bytes for each claim in it; in
// a crowd of one client many Joins share a reading, and few are under way at once.
// A client is one keep-alive for each sixth of each of its etcd leases, whatever it holds; a
// renewal reads the keys of a hundred claims with each request.
//
// etcd keeps what was until it is compacted, and a Join passes over it: some keys for
// each client that ever claimed the name. Let etcd compact (--auto-compaction-retention).
//
// # Keys
//
// Everything is below the prefix, "leasehold/" unless it is set: line/ has the
// claims, note/ what clients tell each other, void/ a key for each etcd lease of a client
// that ever gave up a Join which had not been answered, for as long as the lease lives:
// with it etcd refuses that Join, should it arrive yet. Whoever may read there can read
// claim IDs, and with them end claims: give the prefix to nobody else. Nothing is left
// of a name that nobody claims. Keys of others there are refused by name where they
// are in the way: one without a lease, which would never end, and one that is no claim
// where claims with another limit are looked for.
//
// # The least a user needs
//
// A role that may read and write below the prefix, and nothing else:
//
//	etcdctl role add leasehold
//	etcdctl role grant-permission leasehold readwrite leasehold/ --prefix
//	etcdctl user grant-role USER leasehold
//
// Open refuses a user without it. etcd lets every user grant leases, and end only
// those whose keys it may write.
package etcdlock

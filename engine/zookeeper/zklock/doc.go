// Package zklock keeps queues in ZooKeeper. A claim is an ephemeral sequential node below
// the node of its name, and the order of the nodes is the queue. A hold is trusted for
// half of the session's time from the last proof that it stands. The package needs
// ZooKeeper 3.5 or later; tests and tables ran on 3.8.
//
// # What it promises
//
// First come, first served; exclusive, shared and n of N; tokens that rise over every
// crash and restart. A token is the transaction that made the node, never the node's
// sequence number, which begins anew. At most one holds, even if servers crash or are cut
// off: a client that is cut off has lost its leases before the ensemble lets another hold.
// The one gap is that of every lock: a holder that pauses between its last check of its
// lease and the write. Give the token to the resource.
//
// # What it cannot promise
//
// No claim outlives its client: there are no detached claims, and the claims of a killed
// process stay until its session has timed out. Tokens rise as long as the ensemble keeps
// its data. An ensemble that is set up anew, or goes back to a copy, gives out old tokens
// again, which [Engine.Check] reports. With one server, none takes over. The engine trusts
// servers: it bounds their answers if possible, but a server that lies about the lengths
// within an answer can end the process.
//
// # What proves a hold
//
// A client's session state, its pings and its reads do not prove a hold. A server that has
// lost its leader goes on answering all of them for a while, and the others end the
// session meanwhile. So Renew has the ensemble commit that the nodes of all claims stand
// as they were (one multi of checks, which changes nothing). An ended session commits
// nothing, and a removed node fails its check. It is one request for two thousand claims.
// If the client may not read one of their nodes, that claim alone is not proven.
// Trust counts from when that request was sent, for half of the session's time. The core
// asks for a new proof every third of that.
//
//	session             |----------------------- T ----------------------|
//	proof   sent ------>|-------- trusted: T/2 --------|
//	next proof               T/6        T/3
//
// So a claim lives by a session that lasts twice its TTL. Each class of TTL in use has a
// session and a connection, which are opened at its first use and closed a minute after
// its last. TTLs that differ by less than a tenth share one. There are eight at most; the
// engine refuses a ninth. Sessions must last four ticks of the servers (tickTime), twice
// the shortest that they allow by default. So the shortest TTL is the shortest session,
// and the longest is half of the longest. A client asks for both when it opens, and
// refuses other TTLs.
//
// Many locks use a single ephemeral node that every client tries to create. Its end wakes
// all waiters; each asks again, and the first to ask obtains the lock. Here each waiter
// watches one node, whose end wakes one waiter. The cost of a hand-over does not depend on
// the other waiters.
//
// # Layouts
//
// Other programs share these locks if they use the same nodes.
//
//	curator    <root>/<name>/_c_<uuid>-lock-<10 digits>. InterProcessMutex of Curator
//	           on the path <root>/<name>. Shared claims and permits have names
//	           beside it that Curator stands in the queue with, as it does with any
//	           other mutex.
//	readwrite  <root>/<name>/_c_<uuid>-__WRIT__<10 digits> and __READ__:
//	           InterProcessReadWriteLock. No permits.
//	nodes      <root>/<name>/<prefix><10 digits>: the lock of the tutorials.
//	           Exclusive only.
//
// One name has one layout: Join refuses a node of another layout below the name, or any
// other node, and leaves it alone. The node of a name has the name itself, so that the
// path is the expected one. Some characters are written as %XX: a slash, a percent sign,
// control characters and characters beyond Java's basic ones. So is the first byte of the
// names ".", ".." and "zookeeper". The node of a name is a container, which the servers
// remove some time after its last child.
//
// Beside the nodes of names each session has one ephemeral node of its own,
// <root>/%session-<16 digits>. A claim is made in one step with a write to it, whose
// answer has the number of the transaction, the token. No other client reads it.
// In the layout nodes a claim is removed in one step with such a write: others may make a node
// of the same name later, and the step of a session that has ended fails.
//
// A holder watches for waiters behind it, and for its revocation, once it has held for ten
// milliseconds; it then also sees earlier ones. A waiter watches for its own revocation
// after three seconds.
//
// A claim that waits for permits behind another waiter relies on the client of that one, which
// writes to its node when it comes to hold. A client that is stopped or cut off does not. So Renew lists the
// queue for such a waiter: it holds with the first Renew after its turn has come. The core sends
// one about every four seconds.
//
// Revoke marks a holder's node, which its client sees; with now it also removes it at
// once. For Curator the mark is the one that its revocable locks obey. Without now a
// holder that does not obey keeps its permits until its session ends.
//
// # The least a user needs
//
// Digest users (user:password@ in the URL) need to list the root and create in it:
//
//	create /locks
//	setAcl /locks digest:app:<base64 of the SHA-1 of app:password>:cr
//
// Nodes that the client makes belong to that user alone, or to everybody with ?acl=open.
// Programs that connect as other users or as none need the latter. A name's node that
// another user made must let this user read, create and delete in it, and the nodes below
// it must be readable. To revoke another user's holder they must be writable. Digest sends
// the password to the server as it is: use TLS, or keep that network to yourself.
package zklock

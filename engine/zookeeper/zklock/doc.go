// Package zklock keeps queues in ZooKeeper: a claim is an ephemeral sequential node
// below the node of its name, the order of the nodes is the queue, and a hold is
// trusted for half of the session's time from the last proof that it stands. It
// needs ZooKeeper 3.5 or later; tests and tables ran on 3.8.
//
// # What it promises
//
// First come, first served; exclusive, shared and n of N; tokens that rise over
// every crash and restart (the transaction that made the node, never its sequence
// number, which begins anew). At most one holds, whatever servers crash or are cut
// off: who is cut off has lost its leases before the ensemble lets another hold. The
// one gap is every lock's: a holder that is paused between its last look at its lease
// and the write. Give the token to the resource.
//
// # What it cannot
//
// Nothing outlives its client: there are no detached claims, and the claims of a
// killed process stay until its session has timed out. Tokens rise as long as the
// ensemble keeps its data: one that is set up anew, or goes back to a copy, gives
// out old ones again, which [Engine.Check] says. With one server there is nobody to
// take over. A server is trusted: what it may send is bounded where that is possible,
// but one that lies about the lengths within an answer can end the process.
//
// # What proves a hold
//
// A client's session state, its pings and what it reads do not: a server that has
// lost its leader goes on answering all of them for a while, and the others end the
// session meanwhile. So Renew has the ensemble commit that the nodes of all claims
// stand as they were (one multi of checks, which changes nothing): an ended session
// commits nothing, and a node that was removed fails its check. It is one request
// for two thousand claims. Trust counts from when that was sent, for half of the
// session's time; the library asks for a new proof every third of that.
//
//	session             |----------------------- T ----------------------|
//	proof   sent ------>|-------- trusted: T/2 --------|
//	next proof               T/6        T/3
//
// So a claim lives by a session that lasts twice its TTL. Each class of TTL that is in use
// has one, and a connection, opened at its first use and given up a minute after its last:
// TTLs that differ by less than a tenth share one, and there are eight at most; who asks
// for a ninth is refused in words. Sessions must last four ticks of the servers (tickTime),
// twice the shortest that they allow as they come: the shortest TTL is the shortest session,
// and the longest is half of the longest. A client asks for both when it opens, and refuses
// other TTLs.
//
// Why not a single ephemeral node that everybody tries to create: its end wakes
// everybody who waits, each of whom asks again, and who asks first has it. Here each
// waits for one node, and its end wakes one; what a hand-over costs does not depend
// on who else waits.
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
// One name has one layout: a node below it that is of another is refused by Join, and
// left alone. So is any other node. A name stands as it is, so that the path is the
// expected one; a slash in it, a percent sign, control characters and what lies
// beyond Java's basic characters are written as %XX, and so are the names ".", ".."
// and "zookeeper" in their first byte. The node of a name is a container, which the
// servers remove some time after its last child.
//
// Beside the nodes of names each session has one ephemeral node of its own,
// <root>/%session-<16 digits>: a claim is made in one step with a write to it, whose
// answer has the number of the transaction, the token. Nobody else reads it.
//
// A holder listens for who comes behind it, and for its revocation, once it has held for
// ten milliseconds, and sees then what came before; who waits listens for its own
// revocation after three seconds.
//
// Revoke marks a holder's node, which its client sees, and removes it at once with
// now; a mark for Curator is the one that its revocable locks heed. Without now a
// holder that does not heed it keeps its room until its session ends.
//
// # The least a user needs
//
// Digest users (user:password@ in the URL) need to list the root and create in it:
//
//	create /locks
//	setAcl /locks digest:app:<base64 of the SHA-1 of app:password>:cr
//
// What is made there belongs to that user alone, or to everybody with ?acl=open,
// which programs need that come as other users or as none. A name's node that
// somebody else made must let this user read, create and delete in it, and the nodes
// below it must be readable; to revoke somebody else's holder, writable. Digest sends
// the password to the server as it is: use TLS, or keep that network to yourself.
package zklock

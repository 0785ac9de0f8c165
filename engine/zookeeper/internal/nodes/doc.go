// Package nodes is the pure half of zklock: what the names of nodes mean, in which order
// they stand, which of them hold, and which node a waiting one must watch. It has no
// connection and reads no node's data: it knows a queue from one list of names.
//
// # What the names mean
//
// The nodes of a name are the children of one node. The [Layout] decides their names, and
// each layout belongs to other programs:
//
//	Curator    _c_<uuid>-lock-<10 digits>               exclusive: InterProcessMutex
//	           _c_<uuid>-read-lock-<10 digits>          shared
//	           _c_<uuid>-<n>-of-<N>-lock-<10 digits>    n of N
//	ReadWrite  _c_<uuid>-__WRIT__<10 digits>            InterProcessReadWriteLock
//	           _c_<uuid>-__READ__<10 digits>
//	Nodes      <prefix><10 digits>                      the lock of the tutorials
//
// Curator orders the nodes of a mutex by the number after the last "lock-" and lets the
// first hold. So it also queues behind the second and third form: its mutex waits for all
// nodes before it, of any form.
//
// # Which node to watch
//
// A watch on the right node keeps the cost of a hand-over independent of the other
// waiters: see [WaitsFor]. Only a claim that takes some of the permits, neither one of Max
// nor all, needs more than deletions: it can hold when any of several nodes before it
// goes. The first such waiter watches the whole queue. Each other one watches the node
// before it, which is written to when it becomes held ([Wakes]). A client that is stopped does
// not write, so other clients list the queue from time to time.
package nodes

// Package nodes is the pure half of zklock: what the names of nodes mean, in
// which order they stand, who of them holds, and which node a waiting one must
// watch. It has no connection and reads no node's data: a queue is known from one
// list of names.
//
// # What the names mean
//
// The nodes of a name are the children of one node. How they are called is the
// [Layout], and each is somebody else's:
//
//	Curator    _c_<uuid>-lock-<10 digits>               exclusive: InterProcessMutex
//	           _c_<uuid>-read-lock-<10 digits>          shared
//	           _c_<uuid>-<n>-of-<N>-lock-<10 digits>    n of N
//	ReadWrite  _c_<uuid>-__WRIT__<10 digits>            InterProcessReadWriteLock
//	           _c_<uuid>-__READ__<10 digits>
//	Nodes      <prefix><10 digits>                      the lock of the tutorials
//
// Curator orders the nodes of a mutex by what follows the last "lock-" and lets
// the first hold. So it stands in the queue with the second and third form as well: its
// mutex waits for all that are before it, whatever they are.
//
// # Whom to watch
//
// A watch on the right node is what makes a hand-over cost the same whoever waits:
// see [WaitsFor]. Only a claim that takes some of the permits, neither one of Max nor
// all, needs more than deletions to go by: it can hold when any of several before
// it goes. The first of those that wait watches the whole queue, and each other one
// the node before it, which is written to when it becomes held ([Wakes]).
package nodes

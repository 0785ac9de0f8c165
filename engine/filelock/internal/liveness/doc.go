// Package liveness knows which clients of a directory are alive, and sends notifications
// between them.
//
// # What it promises
//
// A client whose process ended, in any way, is dead for everybody from then on (or from
// when the last LifeFile is closed). A living client is alive as long as its file is
// there. No two clients share a name. If clients wake each other (Wakes), a notification
// to a running client arrives, or it learns that some were lost. A client that waits for
// the end of another learns of it within milliseconds.
//
// # What it cannot promise
//
// A notification to a stopped client waits, and one to a client that cannot be reached is
// lost. So a caller that relies on notifications also polls. A client that has used up its
// share of descriptors (Most) learns of no further ends. A client of unknown state counts
// as alive: its claims then end by their TTL.
//
//	<client>      its kernel lock is that client's life           alive.go
//	<client>.d    socket: notifications for that client           peers.go
//	<client>.s    socket: a connection to it ends with the client monitors.go
//	new.<client>  about to be born                                alive.go
package liveness

// Package liveness is who is alive among the clients of a directory, and the way
// notifications take between them.
//
// What it promises: a client whose process ended, however it did, is dead for
// everybody from then on (or from when the last LifeFile is closed), and one that
// lives is not, as long as its file is there. A name is one client's only. Where
// clients wake each other (Wakes), a notification to one that runs arrives, or it learns
// that some were lost; and who waits for the end of another hears of it within
// milliseconds.
//
// What it cannot: make certain that anybody listens. A notification to a client that is
// stopped waits, and one to a client that cannot be reached is gone; so whoever
// relies on notifications also looks from time to time. A client that has used up its
// share of descriptors (Most) hears of no further ends. What cannot be found
// out about a client counts as alive: its claims then end by their TTL.
//
//	<client>      its kernel lock is that client's life           alive.go
//	<client>.d    socket: notifications for that client                   peers.go
//	<client>.s    socket: a connection to it ends with the client monitors.go
//	new.<client>  about to be born                                alive.go
package liveness

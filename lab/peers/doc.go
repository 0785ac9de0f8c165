// Command peers makes the same trials (package torture) of the locks of other libraries as of
// leasehold's, on private servers, and writes what was seen into docs/torture.md.
//
//	go run ./lab/peers                                        # every lock, every fault
//	go run ./lab/peers -only 'redsync|redislock' -faults stop  # some of it
//	go run ./lab/peers -from DIR -write docs/torture.md        # the tables of an earlier run
//
// A client of a trial locks by the library alone: see torture.Locker. It uses the library as
// the library's own documentation says. Where that leaves renewal to the user, the client
// renews three times in a TTL. A lock may be tried in two ways:
//
//   - notified: the holder works until its library says that the lock is lost, or until a
//     renewal of its own fails.
//   - asked: it also asks the library before each step, if there is something to ask.
//
// Exit code 0: every trial was made. 1: one failed.
package main

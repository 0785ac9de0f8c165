package queuelock

import (
	"embed"
	"time"

	"leasehold/engine/redis/internal/redisconn"
)

// keep is how far behind the last deadline of a queue its key's own expiry is
// put. A key is moved only when less than half of it is left, so a ticket is
// remembered for one to two hours after its queue: one hour by which the clock
// may step back without a ticket falling. (The design allows up to a day; a
// client that locks a hundred fresh names a second would pay for that with nine
// million keys.)
const keep = 2 * time.Hour

//go:embed *.lua
var lua embed.FS

// scripts of the queues layout. Each is a fast path, the shared queue, and what
// the call does with it; a fast path returns before the shared functions are
// even made, which costs a script more than running them.
type scripts struct{ join, leave, renew, group, revoke, read *redisconn.Script }

// newScripts loads them. Guarded: those that may let somebody hold are refused by a
// server that may have forgotten who does. To leave is one of them: it counts out
// whoever has expired, which somebody may not have, whose renewal was forgotten.
func newScripts(guarded bool) scripts {
	load := func(name string) *redisconn.Script {
		s := redisconn.Load(lua, name, keep)
		if guarded && name != "read" {
			s = s.Guarded()
		}
		return s
	}
	return scripts{
		join: load("join"), leave: load("leave"), renew: load("renew"),
		group: load("group"), revoke: load("evict"), read: load("read"),
	}
}

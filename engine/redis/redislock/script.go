package redislock

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/redis/internal/wire"
)

// keep is how far behind the last deadline of a line its key's own expiry is
// put. A key is moved only when less than half of it is left, so a ticket is
// remembered for one to two hours after its line: one hour by which the clock
// may step back without a ticket falling. (The design allows up to a day; a
// client that locks a hundred fresh names a second would pay for that with nine
// million keys.)
const keep = 2 * time.Hour

var (
	//go:embed line.lua
	lineLua string
	//go:embed join.lua
	joinLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed renew.lua
	renewLua string
	//go:embed group.lua
	groupLua string
	//go:embed evict.lua
	evictLua string
	//go:embed read.lua
	readLua string
)

// scripts of the lines layout. Each is a fast path, the shared line, and what
// the call does with it; a fast path returns before the shared functions are
// even made, which costs a script more than running them.
type scripts struct{ join, leave, renew, evict, read *wire.Script }

func newScripts() scripts {
	return scripts{
		join: newScript(joinLua), leave: newScript(leaveLua), renew: newScript(renewLua),
		evict: newScript(evictLua), read: newScript(readLua),
	}
}

func newScript(text string) *wire.Script {
	return wire.NewScript("local KEEP = " + strconv.FormatInt(keep.Microseconds(), 10) + "\n" +
		strings.Replace(text, "-- include line.lua\n", lineLua, 1))
}

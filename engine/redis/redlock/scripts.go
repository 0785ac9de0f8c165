package redlock

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

const (
	// keep is for how long the counter of a name is remembered after its hold.
	keep = 2 * time.Hour

	// near is how far from a master's clock a proposed ticket may be: more than
	// a request takes, less than the shortest delay after a restart.
	near = 250 * time.Millisecond
)

var (
	//go:embed beside.lua
	besideLua string
	//go:embed wake.lua
	wakeLua string
	//go:embed join.lua
	joinLua string
	//go:embed stamp.lua
	stampLua string
	//go:embed renew.lua
	renewLua string
	//go:embed retake.lua
	retakeLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed evict.lua
	revokeLua string
	//go:embed read.lua
	readLua string
	//go:embed together.lua
	togetherLua string
)

// scripts of a master. together makes many calls of join and leave.
type scripts struct{ join, stamp, renew, retake, leave, together, revoke, read *redisconn.Script }

// newScripts are those of a master. Guarded: those by which it votes are refused by
// one that may have forgotten what it granted.
func newScripts(guarded bool, l Layout) scripts {
	constants := fmt.Sprintf("local KEEP, NEAR, LONGEST = %d, %d, %d\n", keep.Milliseconds(), near.Microseconds(), engine.MaxTTL.Milliseconds())
	all := besideLua + l.lua()
	text := func(parts ...string) string { return strings.Join(parts, "") }
	script := func(parts ...string) *redisconn.Script { return redisconn.NewScript(constants + text(parts...)) }
	vote := func(parts ...string) *redisconn.Script {
		s := script(parts...)
		if guarded {
			s = s.Guarded()
		}
		return s
	}
	join, leave := text(l.freeLua(), all, wakeLua, joinLua), text(l.aloneLua(), all, wakeLua, leaveLua)
	function := func(body string) string { return "function(KEYS, ARGV)\n" + body + "end" }
	return scripts{
		join:     vote(join),
		stamp:    vote(all, stampLua),
		renew:    vote(all, renewLua),
		retake:   vote(all, retakeLua),
		leave:    script(leave),
		together: script("local scripts = { join = ", function(join), ", leave = ", function(leave), " }\n", togetherLua),
		revoke:   script(all, wakeLua, revokeLua),
		read:     script(all, readLua),
	}
}

// side begins the keys beside the locks.
const side = "leasehold:redlock:"

// keys of a name: its lock, as other programs have it; what is beside it; who waits.
func (e *Engine) keys(name string) []string {
	key := e.opts.Prefix + name
	begins := e.opts.Layout.beside()
	return []string{key, begins + "b:" + key, begins + "w:" + key}
}

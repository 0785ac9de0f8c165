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
)

type scripts struct{ join, stamp, renew, retake, leave, revoke, read *redisconn.Script }

// newScripts are those of a master. Guarded: those by which it votes are refused by
// one that may have forgotten what it granted.
func newScripts(guarded bool, l Layout) scripts {
	constants := fmt.Sprintf("local KEEP, NEAR, LONGEST = %d, %d, %d\n", keep.Milliseconds(), near.Microseconds(), engine.MaxTTL.Milliseconds())
	script := func(parts ...string) *redisconn.Script {
		return redisconn.NewScript(constants + besideLua + l.lua() + strings.Join(parts, ""))
	}
	vote := func(parts ...string) *redisconn.Script {
		s := script(parts...)
		if guarded {
			s = s.Guarded()
		}
		return s
	}
	return scripts{
		join:   vote(wakeLua, joinLua),
		stamp:  vote(stampLua),
		renew:  vote(renewLua),
		retake: vote(retakeLua),
		leave:  script(wakeLua, leaveLua),
		revoke: script(wakeLua, revokeLua),
		read:   script(readLua),
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

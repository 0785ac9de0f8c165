package redlock

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/redis/internal/wire"
)

const (
	// keep is for how long the counter of a name is remembered after its hold.
	keep = 2 * time.Hour

	// near is how far from a master's clock a proposed ticket may be: more than
	// a request takes, less than the shortest delay after a restart.
	near = 250 * time.Millisecond
)

var (
	//go:embed vote.lua
	voteLua string
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
	evictLua string
	//go:embed read.lua
	readLua string
	//go:embed survived.lua
	survivedLua string
)

type scripts struct{ join, stamp, renew, retake, leave, evict, read, survived *wire.Script }

func newScripts() scripts {
	// A vote is refused before anything is made that it does not need.
	constants := "local KEEP, NEAR = " + strconv.FormatInt(keep.Milliseconds(), 10) + ", " + strconv.FormatInt(near.Microseconds(), 10) + "\n"
	script := func(parts ...string) *wire.Script { return wire.NewScript(constants + strings.Join(parts, "")) }
	return scripts{
		join:     script(voteLua, besideLua, joinLua),
		stamp:    script(voteLua, besideLua, stampLua),
		renew:    script(voteLua, besideLua, renewLua),
		retake:   script(voteLua, besideLua, retakeLua),
		leave:    script(besideLua, wakeLua, leaveLua),
		evict:    script(besideLua, wakeLua, evictLua),
		read:     script(besideLua, readLua),
		survived: script(survivedLua),
	}
}

// side begins the keys beside the locks.
const side = "leasehold:redlock:"

// keys of a name: its lock, as redsync has it; what is beside it; who waits.
func (e *Engine) keys(name string) []string {
	key := e.opts.Prefix + name
	return []string{key, side + "b:" + key, side + "w:" + key}
}

package redissonlock

import (
	_ "embed"
	"strconv"
	"time"

	"leasehold/engine/redis/internal/wire"
)

// keep is for how long the last ticket of a name is remembered after its hold.
const keep = 2 * time.Hour

var (
	//go:embed common.lua
	commonLua string
	//go:embed join.lua
	joinLua string
	//go:embed renew.lua
	renewLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed evict.lua
	evictLua string
	//go:embed read.lua
	readLua string
)

type scripts struct{ join, renew, leave, evict, read *wire.Script }

func newScripts(k Kind) scripts {
	begin := "local KIND, KEEP = '" + string(k) + "', " + strconv.FormatInt(keep.Milliseconds(), 10) + "\n" + commonLua
	of := func(text string) *wire.Script { return wire.NewScript(begin + text) }
	return scripts{join: of(joinLua), renew: of(renewLua), leave: of(leaveLua), evict: of(evictLua), read: of(readLua)}
}

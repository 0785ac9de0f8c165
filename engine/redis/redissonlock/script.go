package redissonlock

import (
	"embed"
	"strconv"
	"time"

	"leasehold/engine/redis/internal/redisconn"
)

// keep is for how long the last ticket of a name is remembered after its hold.
const keep = 2 * time.Hour

//go:embed *.lua
var lua embed.FS

type scripts struct{ join, renew, leave, revoke, read *redisconn.Script }

// newScripts are those of one kind: what all know, what is known of its layout, and
// the step itself.
func newScripts(k Kind) scripts {
	layout := "lock"
	if k == ReadWrite {
		layout = "readwrite"
	}
	constants := "local KIND, KEEP = '" + string(k) + "', " + strconv.FormatInt(keep.Milliseconds(), 10) + "\n"
	short := map[string]string{}
	if layout == "lock" {
		short["join"], short["leave"] = text("lock_free"), text("lock_alone")
	}
	of := func(step string) *redisconn.Script {
		return redisconn.NewScript(constants + short[step] + text("common") + text(layout) + text(layout+"_"+step))
	}
	return scripts{join: of("join"), renew: of("renew"), leave: of("leave"), revoke: of("evict"), read: of("read")}
}

// text is a file that was built in.
func text(name string) string {
	b, err := lua.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // a misspelt name, which no test survives
	}
	return string(b)
}

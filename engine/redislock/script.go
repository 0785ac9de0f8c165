package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
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
	//go:embed evict.lua
	evictLua string
	//go:embed read.lua
	readLua string
)

// script is one Lua program. Redis knows it by its digest once it was sent.
type script struct{ text, sha string }

// scripts of the lines layout. Each is a fast path, the shared line, and what
// the call does with it; a fast path returns before the shared functions are
// even made, which costs a script more than running them.
type scripts struct{ join, leave, renew, evict, read script }

func newScripts() scripts {
	return scripts{
		join: newScript(joinLua), leave: newScript(leaveLua), renew: newScript(renewLua),
		evict: newScript(evictLua), read: newScript(readLua),
	}
}

func newScript(text string) script {
	text = "local KEEP = " + strconv.FormatInt(keep.Microseconds(), 10) + "\n" +
		strings.Replace(text, "-- include line.lua\n", lineLua, 1)
	sum := sha1.Sum([]byte(text)) // Redis's name for it, not a matter of security
	return script{text, hex.EncodeToString(sum[:])}
}

// command builds one call, by digest or with the whole text. No script is ever
// marked as safe to repeat, so rueidis sends each at most once per Do: whether
// to try again is the core's decision, by ID.
func (s *script) command(c rueidis.Client, whole bool, keys, args []string) rueidis.Completed {
	verb, what := "EVALSHA", s.sha
	if whole {
		verb, what = "EVAL", s.text
	}
	return c.B().Arbitrary(verb, what, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

// run calls a script once, and once more with its text if the server does not
// know it (a fresh server, SCRIPT FLUSH, a failover): an unknown script has done
// nothing.
func (e *Engine) run(ctx context.Context, s *script, keys, args []string) rueidis.RedisResult {
	r := e.client.Do(ctx, s.command(e.client, false, keys, args))
	if noScript(r.Error()) {
		r = e.client.Do(ctx, s.command(e.client, true, keys, args))
	}
	return r
}

// call is one use of a script in a batch.
type call struct{ keys, args []string }

// runAll calls a script several times, pipelined.
func (e *Engine) runAll(ctx context.Context, s *script, calls []call) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{e.run(ctx, s, calls[0].keys, calls[0].args)}
	}
	cmds := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		cmds[i] = s.command(e.client, false, c.keys, c.args)
	}
	results := e.client.DoMulti(ctx, cmds...)
	for i, r := range results {
		// The first EVAL teaches the server; those behind it find the script.
		if noScript(r.Error()) {
			results[i] = e.run(ctx, s, calls[i].keys, calls[i].args)
		}
	}
	return results
}

func noScript(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && re.IsNoScript()
}

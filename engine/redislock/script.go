package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
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
	//go:embed group.lua
	groupLua string
	//go:embed evict.lua
	evictLua string
	//go:embed read.lua
	readLua string
)

// script is one Lua program. Redis knows it by its digest once it was sent.
type script struct {
	text, sha string
	grouped   int // of join and leave: with so many arguments group.lua does the same
}

// scripts of the lines layout. Each is a fast path, the shared line, and what
// the call does with it; a fast path returns before the shared functions are
// even made, which costs a script more than running them.
type scripts struct{ join, leave, renew, evict, read script }

func newScripts() scripts {
	s := scripts{
		join: newScript(joinLua), leave: newScript(leaveLua), renew: newScript(renewLua),
		evict: newScript(evictLua), read: newScript(readLua),
	}
	s.join.grouped, s.leave.grouped = 2, 1
	return s
}

func newScript(text string) script {
	text = "local KEEP = " + strconv.FormatInt(keep.Microseconds(), 10) + "\n" +
		strings.Replace(text, "-- include line.lua\n", lineLua, 1)
	sum := sha1.Sum([]byte(text)) // Redis's name for it, not a matter of security
	return script{text: text, sha: hex.EncodeToString(sum[:])}
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

// untimed is a call by digest that rueidis sets no time-out of its own for.
func (s *script) untimed(c rueidis.Client, keys, args []string) rueidis.Completed {
	return c.B().Arbitrary("EVALSHA", s.sha, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Blocking()
}

// call is one use of a script.
type call struct{ keys, args []string }

// answer is what came of a call. unsure is the error of an earlier attempt
// that may have been carried out: a connection that had died meanwhile tells
// only when it is used, so a call is made again on a new one. That is right for
// every script of ours, since they go by ID; but "absent" then no longer says
// how the claim was found.
type answer struct {
	rueidis.RedisResult
	unsure error
}

// attempts bounds how many connections one call tries: rueidis keeps up to four
// to a server, and after its restart all of them may be dead.
const attempts = 5

// run makes one call.
func (e *server) run(ctx context.Context, s *script, c call) answer {
	return e.insist(ctx, s, c, answer{RedisResult: e.do(ctx, s, c)})
}

// do makes one call by the way that suits how many are under way.
func (e *server) do(ctx context.Context, s *script, c call) rueidis.RedisResult {
	defer e.busy.Add(-1)
	busy := e.busy.Add(1)
	e.guard()
	switch {
	case busy >= e.many && s.grouped == len(c.args) && s.grouped > 0 && e.client.Mode() != rueidis.ClientModeCluster:
		// In a Cluster the keys of one script must be of one slot.
		if r, done := e.inGroup(ctx, c); done {
			return r
		}
	case busy == 1:
		if r, done := e.onLane(ctx, s, c); done {
			return r
		}
	}
	return e.shared(ctx, s.command(e.client, false, c.keys, c.args))
}

// warm is after how many calls every shared connection stands, almost certainly:
// rueidis takes one of a few by chance, and makes it if need be.
const warm = 256

// shared sends a command on the client's shared connections. Once one that has
// to be made is connected, and a silent server owes its greeting, no context
// breaks that off. So whoever might have to make one does not wait for it.
func (e *server) shared(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	do := func() rueidis.RedisResult {
		r := e.client.Do(ctx, cmd)
		if r.NonRedisError() == nil {
			if e.answered.Load() < warm {
				e.answered.Add(1)
			}
		} else if ctx.Err() == nil {
			e.answered.Store(0)
		}
		return r
	}
	if e.answered.Load() >= warm || ctx.Done() == nil {
		return do()
	}
	got := make(chan rueidis.RedisResult, 1)
	e.spawn(func() { got <- do() })
	select {
	case r := <-got:
		return r
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// rueidis minds deadlines itself, by breaking the connection. Whoever comes
		// next must not find it broken: it is replaced when that call is over.
		select {
		case r := <-got:
			return r
		case <-time.After(tick):
		}
	}
	return rueidis.NewErrorResult(ctx.Err())
}

// runAll makes several calls, pipelined.
func (e *server) runAll(ctx context.Context, s *script, calls []call) []answer {
	if len(calls) == 1 {
		return []answer{e.run(ctx, s, calls[0])}
	}
	cmds := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		cmds[i] = s.command(e.client, false, c.keys, c.args)
	}
	answers := make([]answer, len(calls))
	for i, r := range e.client.DoMulti(ctx, cmds...) {
		// The first one that is unknown teaches the server; those behind it
		// find the script.
		answers[i] = e.insist(ctx, s, calls[i], answer{RedisResult: r})
	}
	return answers
}

// insist repeats a call with the script's text if the server does not know it
// (a fresh server, SCRIPT FLUSH, a failover), and on another connection if this
// one was broken.
func (e *server) insist(ctx context.Context, s *script, c call, a answer) answer {
	whole := false
	for range attempts {
		err := a.Error()
		switch {
		case err == nil:
			return a
		case noScript(err) && !whole:
			whole = true // an unknown script has done nothing
		case broken(err) && ctx.Err() == nil && !e.closed.Load():
			a.unsure = err
		default:
			return a
		}
		a.RedisResult = e.shared(ctx, s.command(e.client, whole, c.keys, c.args))
	}
	return a
}

func noScript(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && re.IsNoScript()
}

// broken reports whether a connection that once stood has ended. A server that
// cannot be reached, or does not answer, is another matter: the core waits.
func broken(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

package redisconn

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Script is one Lua program. Redis knows it by its digest once it was sent.
type Script struct {
	text, sha string
	guarded   bool // see Guarded
}

// NewScript is the program with that text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) // Redis's name for it, not a matter of security
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// Load is the program of a file.lua. Where the file says "-- include other.lua" that
// one is put in, and KEEP is for how long a name is remembered, in microseconds.
func Load(files embed.FS, name string, keep time.Duration) *Script {
	read := func(file string) string {
		b, err := files.ReadFile(file)
		if err != nil {
			panic(err) // the compiler puts the files there
		}
		return string(b)
	}
	text := read(name + ".lua")
	if before, rest, ok := strings.Cut(text, "-- include "); ok {
		file, after, _ := strings.Cut(rest, "\n")
		text = before + read(file) + after
	}
	return NewScript("local KEEP = " + strconv.FormatInt(keep.Microseconds(), 10) + "\n" + text)
}

// Text is the program.
func (s *Script) Text() string { return s.text }

// Call is one use of a script. In a Cluster its keys are of one slot.
type Call struct{ Keys, Args []string }

// Answer is what came of a call. Indeterminate is the error of an earlier attempt that
// may have been carried out: a connection that had died meanwhile tells only
// when it is used, so a call is made again on a new one. So a script must be one
// that may be repeated, and "absent" then no longer says what was found.
type Answer struct {
	rueidis.RedisResult
	Indeterminate error
}

// Failed is the answer of a call that learned nothing.
func Failed(err error) Answer { return Answer{RedisResult: rueidis.NewErrorResult(err)} }

// command builds one call, by digest or with the whole text. No script is
// marked as safe to repeat, so the library sends each once.
func (c *Client) command(s *Script, whole bool, call Call) rueidis.Completed {
	verb, what := "EVALSHA", s.sha
	if whole {
		verb, what = "EVAL", s.text
	}
	return c.redis.B().Arbitrary(verb, what, strconv.Itoa(len(call.Keys))).Keys(call.Keys...).Args(call.Args...).Build()
}

// Ask makes one call of a command that is no script, once, and returns as soon
// as ctx ends.
func (c *Client) Ask(ctx context.Context, verb string, args ...string) rueidis.RedisResult {
	return c.do(ctx, c.redis.B().Arbitrary(verb).Args(args...).Build())
}

// do sends one command.
func (c *Client) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.lone == nil || !c.lone.stands.Load() {
		return c.answered(ctx, c.ask(ctx, c.redis, cmd))
	}
	redis, conn := c.enter(ctx, c.redis)
	defer c.leave()
	r := c.lone.do(ctx, redis, cmd)
	c.endDemoted(conn, r)
	return c.answered(ctx, r)
}

// ask sends one command to one node, or by the client that knows them all.
func (c *Client) ask(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	r, err := await(ctx, c, func() rueidis.RedisResult {
		// Not without a deadline: the library then has a goroutine read this
		// connection for good, and every call goes by that.
		bounded, cancel := c.bounded()
		defer cancel()
		node, conn := c.enter(bounded, node) // and not left before the library is done with it, whoever waits
		defer c.leave()
		r := unlessCutOff(bounded, func() rueidis.RedisResult { return node.Do(bounded, cmd) })
		c.endDemoted(conn, r)
		return r
	}, nil)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return r
}

// answered records whether the connection stands. Who has broken it off himself
// hears why.
func (c *Client) answered(ctx context.Context, r rueidis.RedisResult) rueidis.RedisResult {
	failed := r.NonRedisError() != nil
	if c.lone != nil {
		c.lone.stands.Store(!failed && !demoted(r.Error()))
	}
	switch {
	case failed && ctx.Err() != nil:
		return rueidis.NewErrorResult(ctx.Err())
	case failed && c.life.Err() != nil:
		return rueidis.NewErrorResult(engine.ErrClosed)
	}
	return r
}

// Call makes one call. It returns as soon as ctx ends; the call may be carried
// out nevertheless.
func (c *Client) Call(ctx context.Context, s *Script, call Call) Answer {
	if !s.guarded {
		return c.call(ctx, s, call)
	}
	return c.CallMany(ctx, s, []Call{call})[0]
}

func (c *Client) call(ctx context.Context, s *Script, call Call) Answer {
	return c.insist(ctx, s, call, c.do(ctx, c.command(s, false, call)))
}

// CallMany makes calls that go out together, each for itself.
func (c *Client) CallMany(ctx context.Context, s *Script, calls []Call) []Answer {
	return c.onItsRun(ctx, s, calls, func(calls []Call) []Answer { return c.callMany(ctx, s, calls) })
}

func (c *Client) callMany(ctx context.Context, s *Script, calls []Call) []Answer {
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return []Answer{c.call(ctx, s, calls[0])}
	}
	answers := make([]Answer, len(calls))
	cmds := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		cmds[i] = c.command(s, false, call)
	}
	results, err := await(ctx, c, func() []rueidis.RedisResult {
		ctx, cancel := c.bounded()
		defer cancel()
		redis, conn := c.enter(ctx, c.redis)
		defer c.leave()
		results := redis.DoMulti(ctx, cmds...)
		c.endDemoted(conn, results...)
		for i, r := range results {
			if cutOff(ctx, r) {
				results[i] = rueidis.NewErrorResult(errCutOff)
			}
		}
		return results
	}, nil)
	for i, call := range calls {
		if err != nil {
			answers[i] = Failed(err)
			continue
		}
		// The first one that is unknown teaches the server; those behind it
		// find the script.
		answers[i] = c.insist(ctx, s, call, results[i])
	}
	return answers
}

// attempts bounds how many connections one call tries: the library keeps up to
// four to a server, and after its restart all of them may be dead.
const attempts = 5

// insist repeats a call with the script's text if the server does not know it
// (a fresh server, SCRIPT FLUSH, a failover), and on another connection if this
// one was broken.
func (c *Client) insist(ctx context.Context, s *Script, call Call, r rueidis.RedisResult) Answer {
	a, whole := Answer{RedisResult: r}, false
	for range attempts {
		err := a.Error()
		switch {
		case err == nil:
			return a
		case unknown(err) && !whole:
			whole = true // an unknown script has done nothing
		case err == errCutOff:
		case broken(err) && ctx.Err() == nil:
			a.Indeterminate = err
		default:
			return a
		}
		a.RedisResult = c.do(ctx, c.command(s, whole, call))
	}
	return a
}

// errCutOff is the error of a call that was cut off, and not sent.
var errCutOff = errors.New("the deadline of another call broke off the connection")

func unknown(err error) bool {
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

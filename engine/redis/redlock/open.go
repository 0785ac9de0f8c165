package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// Open connects to the masters that a URL names and returns an engine on them:
//
//	redlock://[user:password@]host:6379,host:6379,host:6379[/db]
//
// redlocks:// uses TLS. User, password, database and parameters are those of redis:// (see
// package leasehold/engine/redis) and the same for every master, without failover. Besides
// prefix and allow-eviction there are
//
//	layout=redisson      RedissonRedLock's locks, not redsync's
//	timeout=20ms         how long a call waits for one master
//	max-ttl=1m           the longest TTL, and how long a restarted master has no vote
//	restart-delay=off    a restarted master votes at once
//
// The engine tries to reach a missing minority in the background. Errors show no password.
// ctx bounds the opening only, which takes five seconds at most. Open succeeds on masters
// that have no vote yet. Calls to them before they have one fail with the time from which
// they vote.
//
// Open returns an error for a malformed URL, fewer than three masters, and a majority that
// cannot be reached. It refuses any master that is not Redis, refuses the password, or is
// unfit ([Options.AllowEviction], a replica, a node of a Cluster).
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	e, targets, _, err := fromURL(rawURL)
	if err != nil {
		return nil, err
	}
	return e, e.start(ctx, func(ctx context.Context, i int) (*redisconn.Client, error) { return redisconn.Dial(ctx, targets[i]) })
}

// New returns an engine on the caller's own clients, one for each master, which the caller
// closes after the engine. It asks each master whether it is fit. A nil o means the
// defaults.
func New(ctx context.Context, clients []rueidis.Client, o *Options) (*Engine, error) {
	var names []string
	for i := range clients {
		names = append(names, fmt.Sprintf("master %d", i+1))
	}
	e, err := prepare(names, o)
	if err != nil {
		return nil, redisconn.Named("redlock", err)
	}
	return e, e.start(ctx, func(_ context.Context, i int) (*redisconn.Client, error) { return redisconn.New(clients[i]), nil })
}

// fromURL prepares an engine on the masters that a URL names, and reaches nobody yet. What
// it refuses is a wrong URL, which no retry mends.
func fromURL(raw string) (e *Engine, targets []*redisconn.Target, names []string, err error) {
	o, targets, names, err := parse(raw)
	if err == nil {
		e, err = prepare(names, o)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("redlock: %w: %w", engine.ErrURL, err)
	}
	return e, targets, names, nil
}

// parse reads a URL as many of one server each.
func parse(raw string) (o *Options, targets []*redisconn.Target, names []string, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	single := map[string]string{"redlock": "redis", "redlocks": "rediss"}[strings.ToLower(scheme)]
	if !ok || single == "" {
		return nil, nil, nil, errors.New("this is not a URL of masters: redlock://host:6379,host:6379,host:6379 is, redlocks:// with TLS")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	who, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		who, hosts = authority[:i+1], authority[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		t, err := redisconn.ParseURL(single+"://"+who+host+"/"+path+"?"+query, "prefix", "layout", "timeout", "max-ttl", "restart-delay")
		if err != nil {
			return nil, nil, nil, err
		}
		targets, names = append(targets, t), append(names, host)
	}
	t := targets[0]
	if t.Failover {
		return nil, nil, nil, errors.New("failover is not for redlock: each master is a server of its own, which no other may replace: leave it out")
	}
	o = &Options{Layout: Layout(t.Param("layout")), Prefix: t.Param("prefix"), AllowEviction: t.AllowEviction}
	for name, d := range map[string]*time.Duration{"timeout": &o.Timeout, "max-ttl": &o.MaxTTL} {
		if v := t.Param(name); v != "" {
			if *d, err = time.ParseDuration(v); err != nil || *d <= 0 {
				return nil, nil, nil, fmt.Errorf("%s=%q is no time such as 20ms or 1m", name, v)
			}
		}
	}
	switch v := t.Param("restart-delay"); v {
	case "", "on":
	case "off":
		o.NoRestartDelay = true
	default:
		return nil, nil, nil, fmt.Errorf("restart-delay=%q is neither on nor off", v)
	}
	return o, targets, names, nil
}

func prepare(names []string, o *Options) (*Engine, error) {
	opts, err := o.check()
	if err != nil {
		return nil, err
	}
	if n := len(names); n < leastMasters || n > mostMasters {
		return nil, fmt.Errorf("%d masters are outside %d to %d: five are usual, and two of five may be away", n, leastMasters, mostMasters)
	}
	var id [12]byte
	rand.Read(id[:])
	e := &Engine{
		opts: opts, majority: len(names)/2 + 1, scripts: newScripts(!opts.NoRestartDelay, opts.Layout),
		channel: side + "@" + hex.EncodeToString(id[:]),
	}
	e.next = make(chan func())
	e.ears = parts.NewEars(opts.Layout.channel)
	e.life, e.end = context.WithCancel(context.Background())
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return nil, fmt.Errorf("%s is named twice: every vote must be another server's", name)
		}
		seen[name] = true
		m := newMaster(name, max(opts.Timeout, mostTimeout))
		m.scripts, m.sharing = &e.scripts, e.scripts.share(e.life)
		e.masters = append(e.masters, m)
	}
	return e, nil
}

const (
	// openBound is how long a majority may take to be there.
	openBound = 5 * time.Second

	// Once it is there the others have ten times as long as it took, so that the
	// first lock is on them too, within these bounds. Later they join by themselves.
	leastGrace, mostGrace = 250 * time.Millisecond, 500 * time.Millisecond
)

// start reaches a majority of the masters at least, all of them side by side, and
// goes on to reach the rest. It returns when its context ends, whatever they do.
func (e *Engine) start(outer context.Context, dial func(context.Context, int) (*redisconn.Client, error)) (err error) {
	began := boottime.Now()
	ctx, cancel := context.WithTimeout(outer, openBound)
	defer cancel()
	defer func() {
		if err != nil {
			e.abandon(ctx)
		}
	}()
	type outcome struct {
		master int
		err    error
	}
	reached := make(chan outcome, len(e.masters))
	for i := range e.masters {
		e.spawn(func() {
			first := true
			e.reach(i, dial, func(err error) {
				if first {
					reached <- outcome{i, err}
				}
				first = false
			})
		})
	}
	up, said := 0, []ballot{}
	var enough <-chan time.Time
	for len(said) < len(e.masters) {
		select {
		case o := <-reached:
			switch {
			case o.err == nil:
				up++
			case !passing(o.err):
				return &refusal{e.masters[o.master].says(o.err), o.err}
			}
			said = append(said, ballot{master: o.master, err: o.err})
			if up >= e.majority && enough == nil {
				timer := time.NewTimer(min(max(10*(boottime.Now()-began), leastGrace), mostGrace))
				defer timer.Stop()
				enough = timer.C
			}
			continue
		case <-enough:
			return nil
		case <-ctx.Done():
		}
		break
	}
	switch err := e.unavailable(said); {
	case up >= e.majority:
		return nil
	case outer.Err() != nil:
		return fmt.Errorf("%w: %w", err, outer.Err())
	default:
		return err
	}
}

// abandon closes an engine that nobody gets, and waits for that no longer than its
// opening may take: a master that does not answer is no reason to.
func (e *Engine) abandon(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// reach dials one master until it is there, and says how each attempt ended.
func (e *Engine) reach(i int, dial func(context.Context, int) (*redisconn.Client, error), said func(error)) {
	const shortest, longest = 100 * time.Millisecond, 2 * time.Second
	m := e.masters[i]
	for pause := shortest; ; pause = min(2*pause, longest) {
		c, err := dial(e.life, i)
		if err == nil {
			if err = e.fit(m, c); err == nil {
				m.use(c)
				said(nil)
				return
			}
			c.Close()
		}
		m.unreached(err)
		said(err)
		select {
		case <-time.After(pause):
		case <-e.life.Done():
			return
		}
	}
}

// fit asks a server whether it can be a master. Whether it has a vote yet is
// another matter.
func (e *Engine) fit(m *master, c *redisconn.Client) error {
	if c.Cluster() || c.FailsOver() {
		return errors.New("this is a Cluster or Sentinel: each master is a server of its own, which no other replaces")
	}
	if err := c.Check(e.life, e.opts.AllowEviction); err != nil {
		return err
	}
	probe := redisconn.Call{Keys: e.keys("probe"), Args: []string{engine.ID{}.Secret(), "", "", "probe"}}
	if err := c.Call(e.life, e.scripts.leave, probe).Error(); err != nil && !errors.Is(redisconn.Explain(err, ""), redisconn.ErrForeign) {
		return redisconn.Explain(err, "")
	}
	// Scripts would fail half way for a user who may not publish.
	if err := c.Publish(e.life, e.channel, ""); err != nil {
		return err
	}
	if err := e.audible(c); err != nil {
		return err
	}
	return e.delayRestarts(m, c)
}

// passing: a server that is down, cut off, or cannot serve now, as opposed to one that
// is wrong.
func passing(err error) bool {
	var op *net.OpError
	return redisconn.Passing(err) || errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

package plainlock

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.Ignored(goleak.IgnoreAnyFunction)...)
}

var (
	connect, within, exclusive = redistest.Connect, redistest.Within, redistest.Exclusive
	join, leave, renew, do     = redistest.Join, redistest.Leave, redistest.Renew, redistest.Do
)

var kit = redistest.Kit{
	Name: "plainlock", Open: Open, Kill: func(e engine.Engine) { e.(*Engine).wire.Close() }, Scripts: texts(), Polls: true,
	Keys: (&Engine{}).keys,
}

func texts() (all []string) {
	s := newScripts()
	for _, one := range []*redisconn.Script{s.join, s.leave, s.renew, s.revoke, s.read} {
		all = append(all, one.Text())
	}
	return all
}

func open(t testing.TB, url string) engine.Engine {
	t.Helper()
	return kit.Opened(t, url)
}

func TestConformance(t *testing.T)        { kit.Conformance(t) }
func TestConformanceCluster(t *testing.T) { kit.ConformanceCluster(t) }

func TestForeignDataIsNotTouched(t *testing.T) {
	kit.ForeignData(t, func(_ engine.Engine, name string) string { return name }, "string")
}

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// peer is what redsync, bsm/redislock and many a home-made lock do.
type peer struct {
	t   *testing.T
	c   rueidis.Client
	cad *rueidis.Lua
}

func (p peer) lock(key, value string, ttl time.Duration) bool {
	p.t.Helper()
	err := p.c.Do(p.t.Context(), p.c.B().Set().Key(key).Value(value).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		p.t.Fatal(err)
	}
	return err == nil
}

func (p peer) unlock(key, value string) bool {
	p.t.Helper()
	n, err := p.cad.Exec(p.t.Context(), p.c, []string{key}, []string{value}).AsInt64()
	if err != nil {
		p.t.Fatal(err)
	}
	return n == 1
}

func TestPlainExcludesProgramsThatUseTheKey(t *testing.T) {
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr+"")
	p := peer{t, connect(t, r.Addr), rueidis.NewLuaScript(compareAndDelete)}

	mine := join(t, e, exclusive("stock:42"))
	if mine.State != engine.Held || p.lock("stock:42", "theirs", time.Second) {
		t.Fatalf("held twice: %+v", mine)
	}
	if p.unlock("stock:42", "theirs") {
		t.Fatal("another program unlocked it")
	}
	leave(t, e, mine)
	if !p.lock("stock:42", "theirs", time.Minute) {
		t.Fatal("left, but not free for another program")
	}
	q := exclusive("stock:42")
	waits := join(t, e, q)
	if waits.State != engine.Waiting || waits.PollAfter <= 0 || waits.PollAfter > 100*time.Millisecond {
		t.Fatalf("joined behind another program as %+v", waits)
	}
	if c := renew(t, e, waits, time.Second); c.State != engine.Waiting {
		t.Fatalf("renewed as %+v", c)
	}
	l, err := e.Queue(within(t), "stock:42")
	if err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != 0 || l.Claims[0].Owner.Label == "" {
		t.Errorf("the other program's hold is shown as %+v %v", l, err)
	}
	if s := leave(t, e, engine.Claim{Name: "stock:42", ID: engine.NewID()}); s != engine.Gone {
		t.Errorf("a claim that is none left as %v", s)
	}
	if !p.unlock("stock:42", "theirs") {
		t.Fatal("the other program's lock was touched")
	}
	c := renew(t, e, waits, time.Second)
	if c.State != engine.Held || c.Ticket <= mine.Ticket {
		t.Fatalf("free again, renewed as %+v", c)
	}
	// A program without an expiry holds for ever.
	leave(t, e, c)
	do(t, r, "SET", "stock:42", "for ever")
	if c := join(t, e, exclusive("stock:42")); c.State != engine.Waiting {
		t.Errorf("joined behind a lock without expiry as %+v", c)
	}
	if ttl := do(t, r, "TTL", "stock:42").(int64); ttl != -1 {
		t.Error("its expiry was changed")
	}
}

func TestKeyBesideIsInTheSameSlot(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	p := &Engine{prefix: "app:"}
	seen := map[string]string{}
	for _, name := range []string{"a", "{a}", "a{b}c", "{}", "{}x", "a}b", "}{", "{", "}", "a{b", "{{a}}", "n{a}", "t{a}", "s{1}a", "{}{x}", "\u00fc}"} {
		keys := p.keys(name)
		if other, twice := seen[keys[1]]; twice {
			t.Errorf("%q and %q share %q", name, other, keys[1])
		}
		seen[keys[1]] = name
		if a, b := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", keys[0]), do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", keys[1]); a != b {
			t.Errorf("%q is in slot %v, %q in %v", keys[0], a, keys[1], b)
		}
		if got, ok := p.nameOf(keys[1]); !ok || got != name {
			t.Errorf("%q belongs to %q %v", keys[1], got, ok)
		}
	}
}

// TestRevokeWhoseAnswerWasLostDoesNotSayThatNobodyWasThere: it may have been this
// very call that ended the claim.
func TestRevokeWhoseAnswerWasLostDoesNotSayThatNobodyWasThere(t *testing.T) {
	r := servers.Redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := open(t, "redis://"+p.Addr)
	c := join(t, open(t, "redis://"+r.Addr), exclusive("a"))
	e.Revoke(within(t), "a", 1, true) // teaches Revoke
	p.LoseReply("EVALSHA")
	if err := e.Revoke(within(t), "a", c.Ticket, true); err == nil || errors.Is(err, engine.ErrNoClaim) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("Revoke: %v", err)
	}
	if err := e.Revoke(within(t), "a", c.Ticket, true); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("once more: %v", err)
	}
}

// TestARevokedClaimThatIsAskedForAgainIsGone: the answer to its Join was lost, so to speak.
func TestARevokedClaimThatIsAskedForAgainIsGone(t *testing.T) {
	e := open(t, "redis://"+servers.Redis(t, nil).Addr)
	for name, now := range map[string]bool{"marked": false, "ended": true} {
		r := exclusive(name)
		c := join(t, e, r)
		if err := e.Revoke(within(t), name, c.Ticket, now); err != nil {
			t.Fatal(err)
		}
		if got := join(t, e, r); got.State != engine.Gone || !got.Revoked {
			t.Errorf("%s, and asked for again: %+v", name, got)
		}
	}
	if got := join(t, e, exclusive("ended")); got.State != engine.Held { // which nobody has
		t.Errorf("another claim: %+v", got)
	}
}

// TestALeaveWhoseAnswerWasLostDoesNotSayThatNothingWasThere: who waited may have held, by
// a Join whose answer was lost, and then that of its Leave was.
func TestALeaveWhoseAnswerWasLostDoesNotSayThatNothingWasThere(t *testing.T) {
	r := servers.Redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e, other := open(t, "redis://"+p.Addr), open(t, "redis://"+r.Addr)
	leave(t, e, engine.Claim{Name: "a", ID: engine.NewID()}) // teaches Leave
	holds := join(t, other, exclusive("a"))
	waits := join(t, e, exclusive("a"))
	if waits.State != engine.Waiting {
		t.Fatalf("joined as %+v", waits)
	}
	leave(t, other, holds)
	// As a Join does whose answer is lost and whose caller goes.
	do(t, r, "SET", "a", waits.ID.Secret(), "PX", "60000")
	p.LoseReply("EVALSHA")
	if cs, err := e.Leave(within(t), []engine.Claim{waits}); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("left as %+v", cs)
	}
	if n := do(t, r, "EXISTS", "a").(int64); n != 0 {
		t.Error("it still holds")
	}
}

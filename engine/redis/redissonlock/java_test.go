package redissonlock

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// java is one thread of a program with Redisson, by the commands that its layout
// comes down to. Nobody else writes meanwhile, so they need no script.
type java struct {
	t      *testing.T
	r      *servers.RedisServer
	holder string // <uuid>:<thread>
}

func program(t *testing.T, r *servers.RedisServer) java {
	return java{t, r, "b9f7c4bd-7a9f-4f0c-9d4e-2f1b6f3a9c11:43"}
}

func (j java) do(args ...string) any { j.t.Helper(); return do(j.t, j.r, args...) }

// lock enters the lock of that name, and says what is left of another's hold if it
// cannot.
func (j java) lock(name string, lease time.Duration) (ok bool, left int64) {
	j.t.Helper()
	if j.do("EXISTS", name) == int64(1) && j.do("HEXISTS", name, j.holder) == int64(0) {
		return false, j.do("PTTL", name).(int64)
	}
	j.do("HINCRBY", name, j.holder, "1")
	j.do("PEXPIRE", name, strconv.FormatInt(lease.Milliseconds(), 10))
	return true, 0
}

// unlock leaves it once.
func (j java) unlock(name, channel string) {
	j.t.Helper()
	if j.do("HINCRBY", name, j.holder, "-1") == int64(0) {
		j.do("DEL", name)
		j.do("PUBLISH", channel, "0")
	}
}

// read enters as a reader for the n-th time.
func (j java) read(name, prefix string, n int, lease time.Duration) {
	j.t.Helper()
	ms := strconv.FormatInt(lease.Milliseconds(), 10)
	j.do("HSET", name, "mode", "read")
	j.do("HSET", name, j.holder, strconv.Itoa(n))
	j.do("SET", prefix+j.holder+":rwlock_timeout:"+strconv.Itoa(n), "1", "PX", ms)
	if j.do("PTTL", name).(int64) < lease.Milliseconds() {
		j.do("PEXPIRE", name, ms)
	}
}

// listening hears what is published on channels, as Redisson's waiters do.
func listening(t *testing.T, r *servers.RedisServer, channels ...string) <-chan string {
	t.Helper()
	conn, cancel := connect(t, r.Addr).Dedicate()
	t.Cleanup(cancel)
	received, began := make(chan string, 100), make(chan struct{}, len(channels))
	conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { received <- m.Channel + " " + m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { began <- struct{}{} },
	})
	if err := conn.Do(t.Context(), conn.B().Subscribe().Channel(channels...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for range channels {
		<-began
	}
	return received
}

// only checks that exactly these messages came, in order. What is published
// afterwards comes behind them.
func only(t *testing.T, r *servers.RedisServer, received <-chan string, channel string, want ...string) {
	t.Helper()
	do(t, r, "PUBLISH", channel, "end")
	var got []string
	for {
		select {
		case m := <-received:
			if m == channel+" end" {
				if strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("published: %q, want %q", got, want)
				}
				return
			}
			got = append(got, m)
		case <-time.After(20 * time.Second):
			t.Fatalf("what was published last is not heard; before: %q", got)
		}
	}
}

func hash(t *testing.T, r *servers.RedisServer, name string) map[string]string {
	t.Helper()
	m := map[string]string{}
	list := do(t, r, "HGETALL", name).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1].(string)
	}
	return m
}

// calls are how many scripts the server has run.
func calls(t *testing.T, r *servers.RedisServer) (n int64) {
	t.Helper()
	for l := range strings.Lines(do(t, r, "INFO", "commandstats").(string)) {
		if strings.HasPrefix(l, "cmdstat_eval") {
			_, rest, _ := strings.Cut(l, "calls=")
			count, _, _ := strings.Cut(rest, ",")
			k, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
	return n
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func reader(name string) engine.Request {
	r := exclusive(name)
	r.Permits = 1
	return r
}

func line(t *testing.T, e engine.Engine, name string) []engine.Claim {
	t.Helper()
	l, err := e.Queue(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Claims
}

package queuelock

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine/internal/queuetest"
	"leasehold/engine/queue"
	"leasehold/engine/redis/internal/redisconn"
)

// The scripts do what package queue does. They read a clock that the test moves, and
// leave their notifications in a list.
func TestScriptsDoWhatPackageQueueDoes(t *testing.T) {
	t.Parallel()
	c := connect(t, redis(t, nil).Addr)
	var clients []queuetest.Client
	for i := range 3 {
		e := bare(c, "leasehold:", fmt.Sprint("client", i))
		clients = append(clients, queuetest.Client{Name: e.channel, Engine: e})
	}
	m := model{c, clients[0].Engine.(*Engine)}
	queuetest.Compare(t, queuetest.Subject{
		Clients: clients, Seeds: 14,
		Empty: func(t *queuetest.Run, _ bool) { command(t, c, "FLUSHALL") },
		SetClock: func(t *queuetest.Run, now time.Duration) {
			setClock(t, c, now)
			command(t, c, "DEL", "notes")
		},
		Stored:        m.stored,
		Notifications: m.notifications,
	}, tomorrow())
}

var publish = regexp.MustCompile(`redis\.pcall\('PUBLISH', `)

// testScripts read the clock from a key and list what they would publish.
func testScripts() scripts {
	s := newScripts(false)
	for _, one := range []**redisconn.Script{&s.join, &s.leave, &s.renew, &s.revoke, &s.read} {
		text := strings.ReplaceAll((*one).Text(), "redis.call('TIME')", "{redis.call('GET', 'sec'), redis.call('GET', 'usec')}")
		text = publish.ReplaceAllString(text, "redis.call('RPUSH', 'notes', ")
		*one = redisconn.NewScript(text)
	}
	return s
}

// bare is an engine that nobody asked whether its server will do.
func bare(client rueidis.Client, prefix, channel string) *Engine {
	e := &Engine{wire: redisconn.New(client), prefix: prefix, channel: channel, scripts: testScripts()}
	e.groups.Many, e.groups.Most, e.groups.Alone, e.groups.Send = many, enough, e.alone, e.together
	return e
}

// command does one to the server.
func command(t testing.TB, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	r := client.Do(t.Context(), client.B().Arbitrary(args[0]).Args(args[1:]...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", args, err)
	}
	return r
}

// setClock sets the clock of testScripts.
func setClock(t testing.TB, client rueidis.Client, now time.Duration) {
	t.Helper()
	command(t, client, "SET", "sec", strconv.FormatInt(int64(now/time.Second), 10))
	command(t, client, "SET", "usec", strconv.FormatInt(int64(now%time.Second/time.Microsecond), 10))
}

// tomorrow is when the test begins, so that no key expires.
func tomorrow() time.Duration {
	return time.Duration(time.Now().Add(24*time.Hour).UnixMicro()) * time.Microsecond
}

// model looks into the server.
type model struct {
	client rueidis.Client
	e      *Engine
}

func (m model) notifications(t *queuetest.Run) (got []queue.Notification) {
	t.Helper()
	raw, err := command(t, m.client, "LRANGE", "notes", "0", "-1").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(raw); i += 2 {
		c, ok := m.e.notification(raw[i+1])
		if !ok {
			t.Fatalf("unreadable notification %q", raw[i+1])
		}
		got = append(got, queue.Notification{Client: raw[i], Claim: c})
	}
	return got
}

func (m model) stored(t *queuetest.Run, name string) queue.Queue {
	t.Helper()
	fields, err := command(t, m.client, "HGETALL", m.e.key(name)).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseQueue(fields)
	if err != nil {
		t.Fatalf("queue: %v", err)
	}
	// The key must outlive its last deadline by an hour, and not by a day.
	if fields["m"] != "" {
		expires, err := command(t, m.client, "PEXPIRETIME", m.e.key(name)).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		at := time.Duration(expires) * time.Millisecond
		for _, p := range got.Places {
			if p.Deadline > t.Now && at < p.Deadline+keep/2 {
				t.Fatalf("the key goes %v after the deadline of a claim", at-p.Deadline)
			}
		}
		if at < 0 || at > t.Now+24*time.Hour {
			t.Fatalf("the key goes in %v", at-t.Now)
		}
	}
	for id := range maps.Keys(fields) {
		if len(got.Places) < 2 && id != "m" && fields["m"][0] != 'Q' || len(got.Places) == 0 && id != "m" {
			t.Fatalf("a field too many: %x", id)
		}
	}
	if mm := fields["m"]; mm != "" && (mm[0] == 'F' || mm[0] == 'Q') {
		untold := uint32(0)
		for _, p := range got.Places {
			if p.Held && !p.Notified && !p.Revoked {
				untold++
			}
		}
		if u32(mm[49:]) != untold {
			t.Fatalf("untold: %d, but counted %d", u32(mm[49:]), untold)
		}
	}
	return got
}

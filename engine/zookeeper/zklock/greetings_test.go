package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// greeter is a server of which each connection fares as it says: the first as the first
// one, all that come after as the last one.
type greeter struct {
	each []fare
	came int
}

// fare is what a server does with a connection, which is nil if that is refused.
type fare func(net.Conn) error

func refused(net.Conn) error { return errors.New("refused") }

// mute is a server that says nothing.
func mute(c net.Conn) error {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	return nil
}

// stalls is one that begins to greet.
func stalls(c net.Conn) error {
	go func() {
		_, _ = c.Read(make([]byte, maxGreeting))
		_, _ = c.Write([]byte{0, 0, 0, 36})
	}()
	return nil
}

// says is one that is no ZooKeeper.
func says(what string) fare {
	return func(c net.Conn) error {
		go func() {
			_, _ = c.Read(make([]byte, maxGreeting))
			_, _ = io.WriteString(c, what)
			_ = c.Close()
		}()
		return nil
	}
}

// greets is one that greets so late, and then answers nothing.
func greets(late time.Duration) fare {
	return func(c net.Conn) error {
		go func() {
			_, _ = c.Read(make([]byte, maxGreeting))
			time.AfterFunc(late, func() {
				var p packet
				p.int32(0).int32(2000).int64(7).string(make([]byte, 16))
				_, _ = c.Write(p.framed())
				_, _ = io.Copy(io.Discard, c)
			})
		}()
		return nil
	}
}

// answers is one that greets, and answers every request with nothing.
func answers(c net.Conn) error {
	go func() {
		_, _ = c.Read(make([]byte, maxGreeting))
		var p packet
		p.int32(0).int32(2000).int64(7).string(make([]byte, 16))
		_, _ = c.Write(p.framed())
		for {
			request, err := unframed(c, 8, 1<<10)
			if err != nil {
				return
			}
			p := packet(request[:4]) // its number
			p.int64(0).int32(0)
			_, _ = c.Write(p.framed())
		}
	}()
	return nil
}

func (g *greeter) Dial(context.Context, string, string) (net.Conn, error) {
	fare := g.each[min(g.came, len(g.each)-1)]
	g.came++
	here, there := net.Pipe()
	if err := fare(there); err != nil {
		return nil, err
	}
	return here, nil
}

// served is after how long a server serves a client, by a clock that moves when all wait.
func served(t *testing.T, session time.Duration, servers []string, each ...fare) (took time.Duration) {
	t.Helper()
	g := &greeter{each: each}
	began := time.Now()
	l := connect(t.Context(), &Options{Servers: servers, Dial: g.Dial}, session, func(zk.Event) {})
	defer l.close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := l.await(ctx); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// A server that starts may lose a connection and never answer it. That costs little,
// however long the outage before it was. The library pauses for a second between rounds.
func TestAConnectionThatAServerLostCostsLittle(t *testing.T) {
	outage := make([]fare, 30)
	for i := range outage {
		outage[i] = refused
	}
	for name, c := range map[string]struct {
		servers []string
		lost    []fare
		most    time.Duration
	}{
		"lone":        {[]string{"a"}, []fare{mute, greets(0)}, 32 * time.Second},
		"several":     {[]string{"a", "b", "c"}, []fare{mute, greets(0)}, 12 * time.Second},
		"lone, twice": {[]string{"a"}, []fare{mute, refused, mute, greets(0)}, 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if took := served(t, time.Minute, c.servers, append(outage, c.lost...)...); took > c.most {
					t.Errorf("it is served after %v, want at most %v", took, c.most)
				}
			})
		})
	}
}

// A server that is slow to greet serves its clients, however short their sessions.
func TestASlowGreetingIsWaitedFor(t *testing.T) {
	for _, servers := range [][]string{{"a"}, {"a", "b", "c"}} {
		synctest.Test(t, func(t *testing.T) {
			if took := served(t, time.Second, servers, greets(5*time.Second)); took > time.Minute {
				t.Errorf("one of %d serves after %v", len(servers), took)
			}
		})
	}
}

// A server that stops amid its greeting costs what one costs that says nothing.
func TestHalfAGreetingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if took := served(t, time.Minute, []string{"a"}, stalls, greets(0)); took > 2*time.Second {
			t.Errorf("it is served after %v", took)
		}
	})
}

// What a server said is not forgotten when it says nothing on the connections after that.
func TestWhatAServerSaidOutlastsItsSilence(t *testing.T) {
	for first, want := range map[string]string{"HTTP/1.1 400 Bad Request": `it says "HTTP"`, "": "says nothing"} {
		synctest.Test(t, func(t *testing.T) {
			g := &greeter{each: []fare{says(first), mute}}
			l := connect(t.Context(), &Options{Servers: []string{"a"}, Dial: g.Dial}, time.Minute, func(zk.Event) {})
			defer l.close()
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := l.away(io.EOF); g.came < 3 || !strings.Contains(err.Error(), want) {
				t.Errorf("said %q; after %d connections: %v", first, g.came, err)
			}
		})
	}
}

// What a server says on a new connection of the session waits until the library has sent its
// watches again, and not for long where it has none.
func TestWatchesAreSentBeforeAnAnswerIsRead(t *testing.T) {
	const session = 7
	reconnected := func(id int64) (*greeted, net.Conn) {
		here, there := net.Pipe()
		l := &link{session: grant{id: id}, changed: make(chan struct{})}
		c := &greeted{Conn: here, link: l, until: time.Now().Add(time.Minute), unabort: func() bool { return true }}
		go func() {
			var p packet
			p.int32(0).int32(2000).int64(session).string(make([]byte, 16))
			_, _ = there.Write(p.framed())
			_, _ = there.Write([]byte("answer"))
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, _ = c.Write(make([]byte, requestLen))
		head := make([]byte, 4)
		_, _ = io.ReadFull(c, head)
		_, _ = io.ReadFull(c, make([]byte, binary.BigEndian.Uint32(head)))
		return c, there
	}
	request := func(operation uint32) []byte {
		return binary.BigEndian.AppendUint32(make([]byte, 8), operation)
	}
	for name, of := range map[string]struct {
		session int64 // before
		sends   uint32
		after   time.Duration
	}{
		"with watches":     {session, setWatches, time.Millisecond},
		"without":          {session, opExists, watchesBound},
		"of a new session": {session - 1, opExists, 0},
		"of a first one":   {0, opExists, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, there := reconnected(of.session)
				defer there.Close()
				defer c.Close()
				began := time.Now()
				go func() {
					time.Sleep(time.Millisecond)
					_, _ = c.Write(request(of.sends))
				}()
				answer := make([]byte, len("answer"))
				if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "answer" {
					t.Errorf("%q, %v", answer, err)
				}
				if took := time.Since(began); took != of.after {
					t.Errorf("the answer was read after %v, want %v", took, of.after)
				}
				synctest.Wait()
				time.Sleep(time.Millisecond)
			})
		})
	}
}

// tongueTied is a connection on which no user can be named.
type tongueTied struct{ net.Conn }

func (c tongueTied) Write(b []byte) (int, error) {
	if operation(b) == setAuth {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// A connection may break just when the library names its user again. The library makes the next
// one all the same.
func TestAConnectionThatBreaksBeforeItsUserIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &greeter{each: []fare{answers}}
		var first net.Conn
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := g.Dial(ctx, network, address)
			switch g.came {
			case 1:
				first = c
			case 2:
				c = tongueTied{c}
			}
			return c, err
		}
		l := connect(t.Context(), &Options{Servers: []string{"a"}, Dial: dial}, time.Minute, func(zk.Event) {})
		defer l.close()
		if _, err := l.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.conn.AddAuth("digest", []byte("me:secret")); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, up := l.current(); g.came < 3 || !up {
			t.Errorf("after %d connections it is served: %v", g.came, up)
		}
	})
}

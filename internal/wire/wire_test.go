package wire_test

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that answers each line with itself.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, lines.Text())
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

func proxy(t *testing.T) *wire.Proxy {
	p, err := wire.New(echo(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// caller is a client of the echo.
type caller struct {
	net.Conn
	lines *bufio.Scanner
}

func dial(t *testing.T, p *wire.Proxy) *caller {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{c, bufio.NewScanner(c)}
}

// answers reports whether a line comes back.
func (c *caller) answers() bool {
	fmt.Fprintln(c, "line")
	return c.lines.Scan()
}

// quiet reports whether nothing arrives for a moment.
func (c *caller) quiet() bool {
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	defer c.SetReadDeadline(time.Time{})
	_, err := c.Read(make([]byte, 1))
	late, ok := err.(net.Error)
	return ok && late.Timeout()
}

func TestWhatIsStoppedOneWayArrivesAfterwards(t *testing.T) {
	for name, stop := range map[string]func(*wire.Proxy, bool){
		"both": (*wire.Proxy).BlackHole, "requests": (*wire.Proxy).StopRequests, "replies": (*wire.Proxy).StopReplies,
	} {
		t.Run(name, func(t *testing.T) {
			p := proxy(t)
			c := dial(t, p)
			if !c.answers() {
				t.Fatal("no answer before the fault")
			}
			stop(p, true)
			fmt.Fprintln(c, "line")
			if !c.quiet() || p.Effects().Late == 0 {
				t.Errorf("an answer came, or nothing is late: %+v", p.Effects())
			}
			stop(p, false)
			if !c.lines.Scan() || c.lines.Text() != "line" {
				t.Error("no answer after the fault")
			}
		})
	}
}

func TestNextAnswersAreLost(t *testing.T) {
	p := proxy(t)
	a, b := dial(t, p), dial(t, p)
	p.LoseNext(1)
	if a.answers() || !b.answers() || p.Effects().Lost != 1 {
		t.Errorf("%+v", p.Effects())
	}
}

func TestNextAnswersWait(t *testing.T) {
	p := proxy(t)
	a, b := dial(t, p), dial(t, p)
	p.HoldNext(1)
	fmt.Fprintln(a, "line")
	if !a.quiet() || !b.answers() {
		t.Error("the first answer came, or the second did not")
	}
	p.Release()
	if !a.lines.Scan() {
		t.Error("what was held did not come")
	}
}

func TestResetsAndRefusalsAreCounted(t *testing.T) {
	p := proxy(t)
	a := dial(t, p)
	if !a.answers() {
		t.Fatal("no answer")
	}
	p.Refuse(true)
	p.Reset()
	if a.answers() {
		t.Error("an answer came through")
	}
	if b, err := net.Dial("tcp", p.Addr); err == nil { // the reset may come before
		if (&caller{b, bufio.NewScanner(b)}).answers() {
			t.Error("an answer came through")
		}
		b.Close()
	}
	p.Refuse(false)
	if !dial(t, p).answers() {
		t.Error("no answer after it was healed")
	}
	if e := p.Effects(); e.Cut != 1 || e.Refused != 1 {
		t.Errorf("%+v", e)
	}
}

func TestDroppedRepliesAreLostAndTheirConnectionsCut(t *testing.T) {
	p := proxy(t)
	a := dial(t, p)
	p.DropReplies(true)
	fmt.Fprintln(a, "line")
	if !a.quiet() || p.Effects().Lost == 0 {
		t.Errorf("%+v", p.Effects())
	}
	p.DropReplies(false)
	if a.answers() || !dial(t, p).answers() {
		t.Error("the connection that lost an answer goes on, or a new one does not")
	}
}

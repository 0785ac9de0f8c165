package competitors

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"leasehold/lab/bench/harness"
)

// Ping is one round trip: P of the targets.
func Ping() harness.Competitor {
	return harness.Competitor{
		Name: "PING", Baseline: true,
		About: "one round trip by rueidis in place of the lock, nothing in place of the unlock",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: at.Addrs[:1]})
			if err != nil {
				return nil, err
			}
			return &pings{c}, nil
		},
	}
}

type pings struct{ redis rueidis.Client }

func (p *pings) Lock(ctx context.Context, _ string) (harness.Unlock, error) {
	if err := p.redis.Do(ctx, p.redis.B().Ping().Build()).Error(); err != nil {
		return nil, err
	}
	return func() error { return nil }, nil
}

func (p *pings) Close() error {
	p.redis.Close()
	return nil
}

// SetNX is SET NX PX and a script that compares and deletes, by rueidis, which
// pipelines concurrent callers: A of the targets. It never waits.
func SetNX() harness.Competitor {
	return harness.Competitor{
		Name: "SET NX", Baseline: true,
		About: "SET NX PX and a compare-and-delete script by rueidis; cannot wait",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: at.Addrs[:1]})
			if err != nil {
				return nil, err
			}
			return &setnxs{c, strconv.Itoa(at.Actor)}, nil
		},
	}
}

var compareAndDelete = rueidis.NewLuaScript(
	`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])`)

type setnxs struct {
	redis rueidis.Client
	value string
}

func (s *setnxs) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	err := s.redis.Do(ctx, s.redis.B().Set().Key(name).Value(s.value).Nx().PxMilliseconds(30_000).Build()).Error()
	if err != nil {
		return nil, err
	}
	return func() error {
		n, err := compareAndDelete.Exec(context.Background(), s.redis, []string{name}, []string{s.value}).AsInt64()
		if err == nil && n != 1 {
			err = errors.New("not mine")
		}
		return err
	}, nil
}

func (s *setnxs) Close() error {
	s.redis.Close()
	return nil
}

// Token is a token relayed by BLPOP and LPUSH, each caller on a bare connection
// of its own: the fastest hand-over Redis can do, B of the targets. It is no lock:
// the token dies with its holder.
func Token() harness.Competitor {
	return harness.Competitor{
		Name: "BLPOP", Baseline: true,
		Waits: "blocked in BLPOP; Redis serves the longest waiter first",
		About: "BLPOP and LPUSH of one token on bare connections; the token dies with its holder",
		Prepare: func(_ context.Context, at harness.Endpoint, names []string) error {
			c, err := dial(at.Addrs[0])
			if err != nil {
				return err
			}
			defer c.conn.Close()
			for _, name := range names {
				if err := c.do("LPUSH", name, "token"); err != nil {
					return err
				}
			}
			return nil
		},
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			return &tokens{addr: at.Addrs[0]}, nil
		},
	}
}

type tokens struct {
	addr string
	mu   sync.Mutex
	idle []*bare
}

func (t *tokens) get() (*bare, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		c := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return c, nil
	}
	return dial(t.addr)
}

func (t *tokens) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	c, err := t.get()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	err = c.do("BLPOP", name, "0")
	if !stop() || err != nil {
		c.conn.Close()
		return nil, errors.Join(ctx.Err(), err)
	}
	return func() error {
		err := c.do("LPUSH", name, "token")
		t.mu.Lock()
		t.idle = append(t.idle, c)
		t.mu.Unlock()
		return err
	}, nil
}

func (t *tokens) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		c.conn.Close()
	}
	t.idle = nil
	return nil
}

// bare is a Redis connection with nothing around it.
type bare struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dial(addr string) (*bare, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &bare{conn: c, in: bufio.NewReader(c)}, nil
}

// do sends a command and reads its reply away.
func (c *bare) do(args ...string) error {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	return c.reply()
}

func (c *bare) reply() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 3 {
		return fmt.Errorf("not a Redis reply: %q", line)
	}
	kind := line[0]
	n, _ := strconv.Atoi(string(line[1 : len(line)-2]))
	switch kind {
	case '-':
		return errors.New(string(line[1 : len(line)-2]))
	case '$':
		if n >= 0 {
			_, err = io.CopyN(io.Discard, c.in, int64(n)+2)
		}
		return err
	case '*':
		for range n {
			if err := c.reply(); err != nil {
				return err
			}
		}
	}
	return nil
}

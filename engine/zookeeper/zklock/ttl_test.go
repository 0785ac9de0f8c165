package zklock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// holderOf is set in a process that holds a name until it is killed: the URL of an engine.
const holderOf = "ZKLOCK_HOLDER"

func TestMain(m *testing.M) {
	if url := os.Getenv(holderOf); url != "" {
		holdFor(url)
	}
	goleak.VerifyTestMain(m)
}

const killedTTL = 2 * time.Second

func holdFor(url string) {
	eng, err := Open(context.Background(), url)
	if err == nil {
		var locks *leasehold.Client
		if locks, err = leasehold.New(eng, &leasehold.Options{TTL: killedTTL}); err == nil {
			_, err = locks.Lock(context.Background(), "killed")
		}
	}
	fmt.Println("holds", err)
	select {}
}

// A holder with a TTL of two seconds is killed: the next holds after twice that, which is
// its session, and two ticks of the server.
func TestTheNextHoldsSoonAfterAHolderWasKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	s := zooKeeper(t)
	locks, err := leasehold.New(open(t, on(s)).Engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	var took []time.Duration
	for round := range 4 {
		holder := exec.CommandContext(t.Context(), os.Args[0])
		holder.Env = append(os.Environ(), holderOf+"=zookeeper://"+s.Addr)
		out, err := holder.StdoutPipe()
		if err == nil {
			err = holder.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "holds <nil>\n" {
			t.Fatal(said, err)
		}
		next := make(chan *leasehold.Lease, 1)
		go func() {
			l, err := locks.Lock(within(t), "killed")
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		eventually(t, "the next does not wait", func() bool {
			l, err := locks.Queue(within(t), "killed")
			return err == nil && len(l.Claims) == 2
		})
		time.Sleep(killedTTL + time.Duration(round)*killedTTL/12) // anywhere between two proofs
		if err := holder.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := boottime.Now()
		_ = holder.Wait()
		l := <-next
		took = append(took, boottime.Now()-killed)
		if l == nil {
			t.FailNow()
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("the next held after %v", took)
	slices.Sort(took)
	if most := 2*killedTTL + 2*servers.DefaultTick; took[len(took)/2] > most {
		t.Errorf("the next held after %v, want %v", took, most)
	}
}

// Each TTL has a session of its own, which all claims with it share, and is what they are
// granted.
func TestATTLIsGrantedAsItWasAskedFor(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	before, err := s.Monitored("zk_num_alive_connections")
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[int64]time.Duration{}
	for i, ttl := range []time.Duration{2 * time.Second, 2 * time.Second, 1900 * time.Millisecond, 5 * time.Second, a.usual} {
		r := exclusive(fmt.Sprint(i))
		r.TTL = ttl
		c, err := a.Join(within(t), r)
		if err != nil || c.TTL != ttl {
			t.Fatalf("%v are granted for %v, %v", c.TTL, ttl, err)
		}
		got, err := a.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: a.usual}})
		if err != nil || got[0].TTL != ttl {
			t.Errorf("renewed, %v are granted for %v, %v", got, ttl, err)
		}
		l, err := a.Queue(within(t), c.Name)
		if err != nil || l.Claims[0].TTL != ttl {
			t.Errorf("shown are %v of %v, %v", l.Claims, ttl, err)
		}
		of, _ := a.find(c.Name, c.ID)
		now, _ := of.link.current()
		sessions[now.id] = now.timeout
	}
	var each []time.Duration
	for _, timeout := range sessions {
		each = append(each, timeout)
	}
	if slices.Sort(each); !slices.Equal(each, []time.Duration{4 * time.Second, 10 * time.Second, 2 * a.usual}) {
		t.Errorf("sessions of %v", each)
	}
	if after, err := s.Monitored("zk_num_alive_connections"); err != nil || after-before != 2 {
		t.Errorf("%v connections more, %v", after-before, err)
	}
}

// As many TTLs as there may be sessions; one more is refused in words, and goes once one of
// them is not used any more, whose session ends.
func TestOneTTLTooMany(t *testing.T) {
	a := open(t, on(zooKeeper(t))) // one, which nobody uses yet: the longest
	a.hold(t, exclusive("longest"))
	asks := func(i int) (engine.Claim, error) {
		r := exclusive(fmt.Sprint(i))
		r.TTL = time.Duration(i) * time.Second
		return a.Join(within(t), r)
	}
	var held []engine.Claim
	for i := range session.MaxClasses - 1 {
		c, err := asks(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if _, err := asks(9); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "different TTLs") {
		t.Fatalf("one more TTL: %v", err)
	}
	of, _ := a.find(held[2].Name, held[2].ID)
	a.leave1(t, held[2])
	if _, err := asks(9); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a session that nobody uses goes on", func() bool { return of.life.Err() != nil })
}

package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/cmd/leasehold/internal/together"
	"leasehold/lab/servers"
)

// disguised names the hand-written lock that a process takes in place of leasehold.
const disguised = "LEASEHOLD_TEST_DISGUISED"

// TestMain is also a process of a demo.
func TestMain(m *testing.M) {
	if !together.Inside() {
		os.Exit(m.Run())
	}
	in := io.Reader(os.Stdin)
	if scheme := os.Getenv(disguised); scheme != "" {
		in = disguise(in, scheme)
	}
	if err := Play(context.Background(), in, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// disguise has an order for leasehold name a hand-written lock.
func disguise(in io.Reader, scheme string) io.Reader {
	lines := bufio.NewReader(in)
	first, _ := lines.ReadBytes('\n')
	var o order
	if err := json.Unmarshal(first, &o); err != nil || o.Scheme != "" {
		return io.MultiReader(bytes.NewReader(first), lines)
	}
	o.Scheme = scheme
	o.Server, _, _ = strings.Cut(o.Server, "?")
	first, _ = json.Marshal(o) // it was read so
	return io.MultiReader(bytes.NewReader(append(first, '\n')), lines)
}

// A schedule that never finds a fault in leasehold shows nothing. Here its processes say
// that they are leasehold, and take the hand-written lock.
func TestAScheduleFindsThatOursFails(t *testing.T) {
	on := map[store]string{redis: "redis://" + servers.Redis(t, nil).Addr, zookeeper: "zookeeper://" + servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second}).Addr}
	for scheme, names := range map[string][]string{
		"setnx": {"setnx"}, "setpx": {"expire", "stale-writer", "deadlock"}, "setpx-del": {"del"}, "getset": {"getset"},
		"zookeeper-one": {"herd"}, "zookeeper-tutorial": {"zk-tutorial"},
	} {
		t.Setenv(disguised, scheme)
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() {
				d := named(name)
				d.chance = patience // what must come here comes late on a busy machine
				ground, err := d.on.open(t.Context(), on[d.on])
				if err != nil {
					t.Error(err)
					return
				}
				defer ground.close()
				var out bytes.Buffer
				if found, err := d.run(t.Context(), &out, false, ground, "", "disguised"); err != nil || !found.failed {
					t.Errorf("%s: got %+v, %v; want a failure:\n%s", name, found, err, &out)
				}
			})
		}
		all.Wait()
	}
}

func named(name string) Demo {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	panic(name)
}

// Run plays by hand first, and says of each half whether it failed.
func TestRunSaysWhichHalfFailed(t *testing.T) {
	for _, want := range []Result{{ByHand: true}, {Ours: true}, {ByHand: true, Ours: true}, {}} {
		var played []string
		d := Demo{scheme: "setnx", how: "a lock", on: private, lanes: letters(2), Anchor: "here", play: func(s *stage) finding {
			played = append(played, s.scheme)
			if s.ours() {
				return finding{want.Ours, "ours was seen"}
			}
			return finding{want.ByHand, "theirs was seen"}
		}}
		var out bytes.Buffer
		got, err := d.Run(t.Context(), &out, Options{})
		if err != nil || got.ByHand != want.ByHand || got.Ours != want.Ours {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if strings.Join(played, ",") != "setnx," {
			t.Errorf("played were %q", played)
		}
		theirs, ours := "theirs was seen", "ours was seen"
		if !want.ByHand {
			theirs = "nothing went wrong this time"
		}
		if want.Ours {
			ours = "it was the same: " + ours
		}
		if !strings.HasSuffix(out.String(), "\nBy hand "+theirs+"; with leasehold "+ours+".\nRead on: docs/from-your-lock.md#here\n") {
			t.Errorf("it prints\n%s", &out)
		}
	}
}

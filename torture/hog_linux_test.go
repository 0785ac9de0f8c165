package torture

import (
	"bufio"
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// hogs is how many busy processes of this one there are.
func hogs(t *testing.T) (n int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // a thread that has ended has none
		for _, pid := range strings.Fields(string(children)) {
			env, _ := os.ReadFile("/proc/" + pid + "/environ")
			if bytes.Contains(env, []byte(role+"="+roleHog)) {
				n++
			}
		}
	}
	return n
}

// A hog keeps every processor busy, and has had an effect only if a client answers later than
// it did before. The test stops the client, so that it decides when that is.
func TestAHogHasAnEffectIfAClientAnswersLate(t *testing.T) {
	for title, c := range map[string]struct {
		slowBefore bool
		bits       int
	}{"later than before": {false, 1}, "as late as before": {true, 0}} {
		t.Run(title, func(t *testing.T) {
			for try := 1; ; try++ {
				strikes, bits, lasted := hogStrikes(t, c.slowBefore)
				if strikes == 1 && bits == c.bits {
					return
				}
				if strikes != 1 || !c.slowBefore || lasted < hogTTL || try == 3 {
					t.Fatalf("%d strikes had %d effects, want 1 and %d", strikes, bits, c.bits)
				}
				// The test came so late to end it that the client had the time to be later.
			}
		})
	}
}

// hogTTL bounds how late a client is taken to be.
const hogTTL = time.Second

// hogStrikes has a hog strike once, and says what came of it, and how long its processes lasted
// at most.
func hogStrikes(t *testing.T, slowBefore bool) (strikes, bits int, lasted time.Duration) {
	t.Helper()
	w := newWitness(bufio.NewWriter(&bytes.Buffer{}), func(err error) { t.Error(err) })
	client, err := w.startClient(t.Context(), job{
		Client: "c1", Number: 1, URL: "dir://" + t.TempDir(), TTL: 10 * time.Second, Seed: 1,
		Names: []name{{Name: "n", Limit: engine.Max}}, Raw: []string{"raw"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		client.process.Kill()
		w.gone(client)
	}()
	halt := func() {
		if err := client.process.Halt(); err != nil {
			t.Error(err)
		}
	}
	if slowBefore {
		halt()
	}
	struck := make(chan error, 1)
	s := &Strike{Rand: rand.New(rand.NewPCG(1, 1)), TTL: hogTTL, w: w, fault: 1}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() { struck <- hog{}.Strike(ctx, s) }()
	began := time.Now() // later: when not all of them ran yet
	for want := 4 * runtime.GOMAXPROCS(0); ; time.Sleep(time.Millisecond) {
		now := time.Now()
		if hogs(t) >= want {
			break
		}
		began = now
	}
	if slowBefore {
		end() // before it is later than that
	} else {
		halt()
	}
	if err := <-struck; err != nil {
		t.Fatal(err)
	}
	lasted = time.Since(began)
	if n := hogs(t); n > 0 {
		t.Errorf("%d hogs are left", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Strikes, w.status.Bits, lasted
}

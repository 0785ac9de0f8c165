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
			if c.slowBefore {
				halt()
			}
			struck := make(chan error, 1)
			s := &Strike{Rand: rand.New(rand.NewPCG(1, 1)), TTL: time.Second, w: w, fault: 1}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			go func() { struck <- hog{}.Strike(ctx, s) }()
			for want := 4 * runtime.GOMAXPROCS(0); hogs(t) < want; {
				time.Sleep(time.Millisecond)
			}
			if c.slowBefore {
				end() // before it is later than that
			} else {
				halt()
			}
			if err := <-struck; err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.status.Strikes != 1 || w.status.Bits != c.bits {
				t.Errorf("%+v", w.status)
			}
			if n := hogs(t); n > 0 {
				t.Errorf("%d hogs are left", n)
			}
		})
	}
}

//go:build linux

package main

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/engines"
	"leasehold/lab/servers"
)

// silent is a URL of that scheme where something accepts connections and never
// speaks, and a channel that says when it was spoken to.
func silent(t *testing.T, scheme string) (rawURL string, called <-chan struct{}) {
	t.Helper()
	calls := make(chan struct{}, 1)
	listen := func(network string) string {
		return servers.Impostor(t, network, func(net.Conn) {
			select {
			case calls <- struct{}{}:
			default:
			}
		})
	}
	tcp := func() string { return listen("tcp") }
	switch {
	case strings.HasSuffix(scheme, "unix"):
		return scheme + "://" + listen("unix"), calls
	case strings.HasPrefix(scheme, "redlock"):
		return scheme + "://" + tcp() + "," + tcp() + "," + tcp(), calls
	case strings.HasSuffix(scheme, "sentinel"):
		return scheme + "://" + tcp() + "/primary", calls
	case scheme == "mysql", scheme == "mariadb", strings.HasPrefix(scheme, "postgres"):
		return scheme + "://me@" + tcp() + "/database", calls
	}
	return scheme + "://" + tcp(), calls
}

// servedSchemes are those of engines that speak to a server.
func servedSchemes() (names []string) {
	for _, s := range engines.Schemes() {
		for _, name := range s.Names {
			if name != "dir" && name != "mem" {
				names = append(names, name)
			}
		}
	}
	return names
}

// Something listens at the address and never speaks: --nonblock and --wait bound the
// opening too, on every engine.
func TestNobodySpeaks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for what, args := range map[string][]string{
		"nonblock": {"run", "a", "--nonblock", "--", "echo", "ran"},
		"wait":     {"acquire", "a", "--wait", "100ms"},
	} {
		runs := map[string]*process{}
		for _, scheme := range servedSchemes() {
			rawURL, _ := silent(t, scheme)
			p.env = append(os.Environ(), "LEASEHOLD_ENGINE="+rawURL)
			runs[scheme] = p.start(args...)
		}
		for scheme, x := range runs {
			t.Run(what+" "+scheme, func(t *testing.T) {
				if code := x.wait(t); code != 69 || x.out.String() != "" {
					t.Errorf("exit code %d, printed %q", code, x.out.String())
				}
				one(t, x.err.String(), scheme+"://", "no answer within 2s")
			})
		}
	}
}

// shortestOpening is the least time after which an engine gives up a server that never speaks.
const shortestOpening = 3 * time.Second

// And so do the signals that ask to end.
func TestSignalsWhileOpening(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, scheme := range servedSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			for what, args := range map[string][]string{
				"run":     {"run", "a", "--", "echo", "ran"},
				"acquire": {"acquire", "a"},
				"ls":      {"ls"},
			} {
				for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
					if testing.Short() && (what == "acquire" || (what == "run") != (sig == syscall.SIGTERM)) {
						continue // each signal once, of a command with a lock and of one without
					}
					for try := 1; ; try++ {
						rawURL, called := silent(t, scheme) // of its own: some call twice
						q := *p
						q.T, q.env = t, append(os.Environ(), "LEASEHOLD_ENGINE="+rawURL)
						began := time.Now()
						y := q.start(args...) // before, and nobody asks this one to end
						<-called
						rawURL, called = silent(t, scheme)
						q.env = append(os.Environ(), "LEASEHOLD_ENGINE="+rawURL)
						x := q.start(args...)
						<-called
						x.Process.Signal(sig)
						code, over := x.wait(t), false
						select {
						case <-y.done:
							over = true
						default:
						}
						if over && time.Since(began) > shortestOpening && try < 3 {
							continue // this machine was as late as an engine that nobody answers
						}
						if code != 128+int(sig) || x.out.String() != "" || x.err.Len() > 0 {
							t.Errorf("%s, %v: exit code %d, printed %q and %q", what, sig, code, x.out.String(), x.err.String())
						}
						if over {
							t.Errorf("%s, %v: it took as long as without a signal", what, sig)
						}
						break
					}
				}
			}
		})
	}
}

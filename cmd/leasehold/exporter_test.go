//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"leasehold/lab/servers"
)

// exporter starts one, and returns how to scrape it.
func (p *place) exporter(args ...string) (x *process, scrape func() string) {
	p.Helper()
	x = p.start(append([]string{"exporter", "--listen", "127.0.0.1:0", "--every", "100ms"}, args...)...)
	address := regexp.MustCompile(`answers scrapes at (http://\S+)\n`)
	var url string
	until(p, "it serves", func() bool {
		if m := address.FindStringSubmatch(x.err.String()); m != nil {
			url = m[1]
		}
		return url != ""
	})
	return x, func() string {
		p.Helper()
		answer, err := http.Get(url)
		if err != nil {
			p.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			p.Fatalf("%s: %v", answer.Status, err)
		}
		return string(body)
	}
}

func TestExporter(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, scrape := p.exporter("--prefix", "order/", "--prefix", "stock/", "--by-name", "5")
	p.start("run", "order/a b", "--", "sleep", "60")
	p.held("order/a b")
	p.start("run", "order/a b", "--", "sleep", "60")
	p.start("run", "mail/1", "--", "sleep", "60")
	p.held("mail/1")
	for _, line := range []string{
		`engine_up 1`, `holders{prefix="order/"} 1`, `waiters{prefix="order/"} 1`, `names{prefix="order/"} 1`, `names{prefix="stock/"} 0`,
		`name_waiters{name="\"order/a b\""} 1`,
	} {
		until(t, line, func() bool { return strings.Contains(scrape(), "\nleasehold_exporter_"+line+"\n") })
	}
	if got := scrape(); strings.Contains(got, "mail") {
		t.Errorf("it shows a name without a prefix:\n%s", got)
	}
	if err := x.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != 0 || strings.Count(x.err.String(), "\n") != 1 {
		t.Errorf("exit code %d after a TERM, and it said %q", code, x.err.String())
	}
}

// An exporter is there to show an engine that is not.
func TestExporterOfAnEngineThatIsAway(t *testing.T) {
	t.Parallel()
	p, s := redisPlaceWith(t, &servers.RedisOptions{Durable: true})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	x, scrape := p.exporter("--within", "500ms")
	said := func(what string, times int) {
		t.Helper()
		until(t, fmt.Sprintf("%q %d times", what, times), func() bool { return strings.Count(x.err.String(), what) == times })
	}
	const fails, works = "leasehold: the engine cannot be read, scrapes try again: ", "leasehold: the engine can be read again\n"
	said(fails, 1)
	up := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("engine_up is %d", n), func() bool {
			return strings.Contains(scrape(), fmt.Sprintf("\nleasehold_exporter_engine_up %d\n", n))
		})
	}
	up(0)
	if err := s.Restart(false); err != nil {
		t.Fatal(err)
	}
	up(1)
	said(works, 1)
	if err := s.Stop(); err != nil { // it accepts connections and says nothing
		t.Fatal(err)
	}
	up(0)
	said(fails, 2)
	if err := s.Cont(); err != nil {
		t.Fatal(err)
	}
	up(1)
	said(works, 2)
}

// An engine that no waiting makes right is an error, and nothing listens.
func TestExporterOfNoEngine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	code, _, stderr := p.leasehold("exporter", "--engine", "frob://host", "--listen", "127.0.0.1:0")
	if one(t, stderr, "known are dir"); code != codeUsage {
		t.Errorf("exit code %d, want %d", code, codeUsage)
	}
}

func TestExporterAddresses(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:1": "", "127.9.9.9:1": "", "[::1]:1": "", "localhost:0": "",
		":1": "--remote", "0.0.0.0:1": "--remote", "[::]:1": "--remote", "192.0.2.1:1": "--remote", "example.com:1": "--remote", "localhost.example.com:1": "--remote",
		"1": "an address and a port", "127.0.0.1": "an address and a port",
	} {
		err := checkListen(listen, false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", listen, err, want)
		}
		if err := checkListen(listen, true); want == "--remote" && err != nil {
			t.Errorf("%s with --remote: %v", listen, err)
		}
	}
}

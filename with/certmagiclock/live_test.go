package certmagiclock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// world is a Redis, an ACME server, a folder of certificates and the processes that share them.
type world struct {
	acme  *process
	sites []*process
	says  chan said // what CertMagic reports in all processes
}

type said struct {
	place int
	line  string
}

func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{says: make(chan said, 1000)}
	r := servers.Redis(t, nil)
	folder := t.TempDir()
	w.acme = start(t, "acme", nil)
	directory := w.acme.wait(t, "https://")
	for i := range n {
		p := start(t, fmt.Sprintf("site redis://%s %s %s", r.Addr, folder, directory), func(line string) {
			w.says <- said{i, line}
		})
		w.sites = append(w.sites, p)
	}
	for _, p := range w.sites {
		p.wait(t, "ready")
	}
	t.Cleanup(func() {
		if entries, err := os.ReadDir(folder + "/locks"); err == nil && len(entries) > 0 {
			t.Errorf("lock files of the storage are in use: %v", entries)
		}
	})
	return w
}

// next returns which process says the line first, of those that have not said it before.
func (w *world) next(t *testing.T, line string) int {
	t.Helper()
	end := time.After(generous)
	for {
		select {
		case s := <-w.says:
			if s.line == line {
				return s.place
			}
		case <-end:
			t.Fatalf("no process says %q", line)
		}
	}
}

func TestThreeProcessesOrderEachCertificateOnce(t *testing.T) {
	w := newWorld(t, 3)
	domains := []string{"a.example.com", "b.example.com", "c.example.com"}
	for _, p := range w.sites {
		p.say(t, strings.Join(domains, " "))
	}
	for i, p := range w.sites {
		for _, d := range domains {
			if got := p.wait(t, "done "+d); !strings.HasSuffix(got, " <nil>") {
				t.Errorf("process %d: %s", i, got)
			}
		}
	}
	obtained := 0
	for _, p := range w.sites {
		obtained += p.count("cert_obtained ")
	}
	if orders := w.acme.count("order "); orders != len(domains) || obtained != len(domains) {
		t.Errorf("%d orders and %d certificates for %d domains", orders, obtained, len(domains))
	}
}

func TestTheNextProcessTakesOverFromAKilledIssuer(t *testing.T) {
	const domain = "a.example.com"
	w := newWorld(t, 3)
	w.acme.say(t, "hold")
	w.acme.wait(t, "ready")
	for _, p := range w.sites {
		p.say(t, domain)
	}
	issuer := w.next(t, "cert_obtaining "+domain)
	w.acme.wait(t, "held") // in the middle of its order
	begin := time.Now()
	w.sites[issuer].Kill()
	second := w.next(t, "cert_obtaining "+domain)
	t.Logf("process %d began %v after process %d was killed; the TTL is %v", second, time.Since(begin), issuer, ttl)
	for i, p := range w.sites {
		if i == issuer {
			continue
		}
		if got := p.wait(t, "done "+domain); !strings.HasSuffix(got, " <nil>") {
			t.Errorf("process %d: %s", i, got)
		}
	}
	if orders := w.acme.count("order "); orders != 2 {
		t.Errorf("%d orders, want that of the killed process and that of its successor", orders)
	}
}

func TestAStoppedIssuerStopsItsOrderWhenItGoesOn(t *testing.T) {
	const domain = "a.example.com"
	w := newWorld(t, 2)
	w.acme.say(t, "hold")
	w.acme.wait(t, "ready")
	for _, p := range w.sites {
		p.say(t, domain)
	}
	issuer := w.next(t, "cert_obtaining "+domain)
	w.acme.wait(t, "held")
	if err := w.sites[issuer].Halt(); err != nil {
		t.Fatal(err)
	}
	if second := w.next(t, "cert_obtained "+domain); second == issuer {
		t.Fatal("the stopped process has obtained the certificate")
	}
	if err := w.sites[issuer].Proceed(); err != nil {
		t.Fatal(err)
	}
	w.acme.wait(t, "gone") // its context ended with the lease, and so did its request
	w.sites[issuer].wait(t, "cert_failed "+domain)
	if n := w.sites[issuer].count("cert_obtained "); n != 0 {
		t.Error("it stored a certificate after its lock was lost")
	}
	if orders := w.acme.count("order "); orders != 2 {
		t.Errorf("%d orders, want one of each process", orders)
	}
}

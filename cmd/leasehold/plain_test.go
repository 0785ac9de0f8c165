//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// A key that another program left without expiry: shown as what it is, and
// removed by nothing but --now.
func TestKeyWithoutExpiryIsShownAndRevoked(t *testing.T) {
	t.Parallel()
	p, s := redisPlace(t)
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=redis://"+s.Addr+"?layout=plain")
	if _, err := s.Do("SET", "stuck", "theirs"); err != nil {
		t.Fatal(err)
	}
	if out := p.must("show", "stuck"); !strings.Contains(out, "no expiry") || !strings.Contains(out, "another program") {
		t.Errorf("show: %s", out)
	}
	if code, _, text := p.leasehold("revoke", "stuck", "--ticket", "0", "--yes"); code == 0 || !strings.Contains(text, "at once") {
		t.Errorf("revoke without --now: exit code %d: %s", code, text)
	}
	p.must("revoke", "stuck", "--ticket", "0", "--now", "--yes")
	if code, _, text := p.answered("run", "stuck", "--nonblock", "--", "true"); code != 0 {
		t.Errorf("after the revocation: exit code %d: %s", code, text)
	}
}

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// redisPlace is a place on a server of the test's own.
func redisPlace(t *testing.T) (*place, *servers.RedisServer) { return redisPlaceWith(t, nil) }

func redisPlaceWith(t *testing.T, o *servers.RedisOptions) (*place, *servers.RedisServer) {
	servers.Need(t, "redis-server")
	s := servers.Redis(t, o)
	p := newPlace(t)
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=redis://"+s.Addr)
	return p, s
}

// A server that stops answering: the command is told in the last third of what
// was granted, killed before it ends, and 76 says so. The server, once it goes
// on, gives the name to the next.
func TestServerStopsAnswering(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // the TERM comes a third of that before its end
	p, s := redisPlace(t)
	notified := p.file("told")
	script := fmt.Sprintf(`trap 'date +%%s.%%N > %s' TERM; while :; do sleep 0.05; done`, notified)
	x := p.start("run", "r", "--ttl", ttl.String(), "--", "sh", "-c", script)
	until(t, "it has its full TTL", func() bool { return p.held("r").TTL > 8 })
	time.Sleep(300 * time.Millisecond) // past the raise, before the next renewal
	stopped := time.Now()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
	if took := time.Since(stopped); took < time.Second || took > ttl+releaseTime {
		t.Errorf("it went on for %v", took)
	}
	p.content(notified)
	if err := s.Cont(); err != nil {
		t.Fatal(err)
	}
	p.must("run", "r", "--wait", "30s", "--", "true")
}

// releaseTime is how long Unlock and Close may try to reach the server, and
// the machine may take for the rest.
const releaseTime = 12 * time.Second

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=redis://me:sesame@"+servers.Nobody)
	for _, args := range [][]string{{"run", "r", "--wait", "2s", "--", "true"}, {"run", "r", "--nonblock", "--", "true"}, {"ls"}, {"show", "r"}} {
		cmd := exec.Command(program, args...)
		cmd.Env = p.env
		x := p.startCmd(cmd)
		if code := x.wait(t); code != 69 {
			t.Errorf("%q: exit code %d", args, code)
		}
		one(t, x.err.String(), "refused")
		if text := x.err.String(); strings.Contains(text, "sesame") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

// What stands in the place of a line is nobody's, and not nobody: why says so, as show
// does.
func TestWhyOfForeignData(t *testing.T) {
	t.Parallel()
	p, s := redisPlace(t)
	holder := p.start("run", "n", "--", "sleep", "60")
	p.held("n")
	keys, err := s.Do("KEYS", "leasehold:*}:n")
	if err != nil || len(keys.([]any)) != 1 {
		t.Fatal(keys, err)
	}
	key := keys.([]any)[0].(string)
	holder.Process.Signal(syscall.SIGTERM)
	holder.wait(t)
	if _, err := s.Do("SET", key, "somebody else's"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"why", "show"} {
		code, out, stderr := p.leasehold(command, "n")
		if code == 0 || out != "" || !strings.Contains(stderr, key) {
			t.Errorf("%s: exit code %d, printed %q: %s; want a refusal that names the key", command, code, out, stderr)
		}
	}
}

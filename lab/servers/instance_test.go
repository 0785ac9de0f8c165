package servers

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestAnInstanceIsItsLastProcess(t *testing.T) {
	Need(t, "sleep")
	s, err := newInstance("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Alive() || s.Tail() != "not started" {
		t.Errorf("alive before it was started: %v, %q", s.Alive(), s.Tail())
	}
	var pids [2]int
	for i := range pids {
		if err := s.launch(Command{Program: "sleep", Args: []string{"60"}, Dir: s.Dir}); err != nil {
			t.Fatal(err)
		}
		pids[i] = s.PID()
		if err := errors.Join(s.Stop(), s.Cont()); err != nil || !s.Alive() {
			t.Errorf("stopped and continued: alive is %v, %v", s.Alive(), err)
		}
		if i == 0 {
			if err := s.Kill(); err != nil || s.Alive() {
				t.Errorf("killed: alive is %v, %v", s.Alive(), err)
			}
		}
	}
	if pids[0] == pids[1] {
		t.Error("the second process is the first")
	}
	last := s.current()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.Dir); last.Alive() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed: alive is %v, its folder: %v", last.Alive(), err)
	}
}

func TestAPortThatIsTakenIsNotTheEnd(t *testing.T) {
	tries := 0
	got, err := anew(func() (int, error) {
		if tries++; tries < 3 {
			return 0, errors.New("bind: Address already in use")
		}
		return 7, nil
	})
	if got != 7 || err != nil {
		t.Errorf("%d, %v after %d tries", got, err, tries)
	}
	wrong := errors.New("no such option")
	tries = 0
	if _, err := anew(func() (int, error) { tries++; return 0, wrong }); !errors.Is(err, wrong) || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	Need(t, "ls", "true")
	dir := t.TempDir()
	if err := toEnd(Command{Program: "ls", Args: []string{"nothing of this name"}, Dir: dir}); err == nil || !strings.Contains(err.Error(), "nothing of this name") {
		t.Errorf("ls of nothing: %v", err)
	}
	if err := toEnd(Command{Program: "true", Dir: dir}); err != nil {
		t.Error(err)
	}
}

func TestMariaDBRestart(t *testing.T) {
	s := MariaDB(t, nil)
	before := s.Addr
	if _, err := s.Query("CREATE TABLE test.t AS SELECT 1 AS a, 'x' AS b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Query("SELECT * FROM test.t"); got != "1\tx" || err != nil || s.Addr != before {
		t.Errorf("after a restart at %s, before at %s: %q, %v", s.Addr, before, got, err)
	}
}

// Nobody else gets the ports of a server that is down, until it is closed.
func TestAServerKeepsItsPorts(t *testing.T) {
	s, err := newInstance("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	const offset = 10000
	port, err := s.freePort(offset)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{port, port + offset} {
		if taken := takePort(p); taken != nil {
			t.Errorf("port %d of %d is given to another", p, port)
			taken.Close()
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	taken := takePort(port)
	if taken == nil {
		t.Fatal("a closed server has its port")
	}
	taken.Close()
}

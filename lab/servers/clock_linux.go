package servers

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed shim/clock.c
var clockShim []byte

// Clock is a wall clock that a test moves: the one of every server that is
// started with its environment ([RedisOptions].Env). A server that checks its
// own binary, or is linked statically, keeps the machine's: look at what it says
// the time is before anything is concluded.
type Clock struct {
	offset *os.File
	shim   string
}

// ShiftedClock makes one that is right so far. It needs a C compiler.
func ShiftedClock(t TB) *Clock {
	t.Helper()
	Need(t, "cc")
	c, err := NewClock()
	if err != nil {
		t.Fatalf("a clock to shift: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Logf("closing a clock: %v", err)
		}
	})
	return c
}

// NewClock makes one for a program.
func NewClock() (_ *Clock, err error) {
	dir, err := os.MkdirTemp("", "lh-clock")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	// A server that runs as somebody else reads it too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Clock{shim: filepath.Join(dir, "clock.so")}
	source := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(source, clockShim, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.shim, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, out)
	}
	if c.offset, err = os.OpenFile(filepath.Join(dir, "offset"), os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	return c, c.Set(0)
}

// Close removes the clock when its servers have ended.
func (c *Clock) Close() error {
	return errors.Join(c.offset.Close(), os.RemoveAll(filepath.Dir(c.shim)))
}

// Set puts the clock that far ahead of the machine's, or behind it, at once.
func (c *Clock) Set(offset time.Duration) error {
	_, err := c.offset.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())), 0)
	return err
}

// Env is what a server is to be started with.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.shim, "SHIFTED_CLOCK=" + c.offset.Name()}
}

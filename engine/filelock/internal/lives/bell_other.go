//go:build !linux

package lives

import (
	"errors"
	"net"

	"leasehold/engine/filelock/internal/disk"
)

// Wakes: clients of this system do not wake each other; they look, as often as
// Claim.Look says. (The BSDs have the sockets, but no way to name one by the
// descriptor of its directory, and their paths end at 104 bytes.)
const Wakes = false

const (
	notesSuffix = ".d"
	lifeSuffix  = ".s"
)

var errNoBell = errors.New("filelock: no sockets on this system")

type bell struct{}

func newBell(disk.Dir, string) (*bell, error) { return &bell{}, nil }

func (*bell) receive(func([]byte), func()) {}
func (*bell) accept(int)                   {}
func (*bell) close()                       {}

type noteConn struct{}

func dialNotes(disk.Dir, string) (noteConn, error)      { return noteConn{}, errNoBell }
func (noteConn) send([]byte) (bool, error)              { return false, errNoBell }
func (noteConn) close()                                 {}
func dialLife(disk.Dir, string) (net.Conn, bool, error) { return nil, true, errNoBell }

//go:build !linux

package liveness

import (
	"errors"
	"net"

	"leasehold/engine/filelock/internal/disk"
)

// Wakes: clients of this system do not wake each other; they look, as often as
// Claim.PollAfter says. (The BSDs have the sockets, but no way to name one by the
// descriptor of its directory, and their paths end at 104 bytes.)
const Wakes = false

const (
	notificationsSuffix = ".d"
	lifeSuffix          = ".s"
)

var errNoNotifier = errors.New("filelock: no sockets on this system")

type notifier struct{}

func newNotifier(disk.Dir, string) (*notifier, error) { return &notifier{}, nil }

func (*notifier) receive(func([]byte), func()) {}
func (*notifier) accept(int)                   {}
func (*notifier) close()                       {}

type notifyConn struct{}

func dialNotifications(disk.Dir, string) (notifyConn, error) { return notifyConn{}, errNoNotifier }
func (notifyConn) send([]byte) (bool, error)                 { return false, errNoNotifier }
func (notifyConn) close()                                    {}
func dialLife(disk.Dir, string) (net.Conn, bool, error)      { return nil, true, errNoNotifier }

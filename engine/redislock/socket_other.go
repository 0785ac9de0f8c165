//go:build !linux

package redislock

import (
	"errors"
	"net"
)

// Sockets are made on Linux only: see socket_linux.go.

type socket struct{ net.Conn }

func (*socket) ignoreDeadlines() {}

func newSocket(net.Conn, bool) (*socket, error) { return nil, errors.ErrUnsupported }

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

type noteSocket struct{ net.Conn }

func (*noteSocket) attend(func() bool, func([]string) bool) {}

func (*noteSocket) interrupt() {}

func newNoteSocket(net.Conn) (*noteSocket, error) { return nil, errors.ErrUnsupported }

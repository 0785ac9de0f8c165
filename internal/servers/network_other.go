//go:build !linux

package servers

import (
	"context"
	"errors"
	"net"
)

// Dial connects from this host: on Linux, where there are any.
func (h *Host) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("hosts need Linux")
}

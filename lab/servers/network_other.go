//go:build !linux

package servers

import (
	"context"
	"errors"
	"net"
)

// Dial connects from this host; there are none on this system.
func (h *Host) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

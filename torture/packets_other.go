//go:build !linux

package torture

import (
	"context"
	"errors"
)

// Packets is a nemesis of Linux.
func Packets() Nemesis { return packets("packets") }

// Cut is a nemesis of Linux.
func Cut() Nemesis { return packets("cut") }

type packets string

func (p packets) Name() string { return string(p) }

func (packets) Prepare(context.Context, *Ground) error {
	return errors.New("packets are lost by the kernel of Linux only")
}

func (packets) Strike(context.Context, *Strike) error { return errors.ErrUnsupported }

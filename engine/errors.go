package engine

import (
	"errors"
	"fmt"
)

// ErrRefused marks an answer that is final: nothing was left behind and asking
// again cannot help. Every other error of an engine means "nothing learned".
var ErrRefused = errors.New("refused")

var (
	// ErrName: the name cannot be locked. Use valid UTF-8 of 1 to MaxName
	// bytes without NUL.
	ErrName = fmt.Errorf("invalid lock name (%w)", ErrRefused)

	// ErrLimit: claims disagree on a name's limit. [LimitError] has both.
	ErrLimit = fmt.Errorf("limits disagree (%w)", ErrRefused)

	// ErrNoClaim: no claim has that ticket (any more).
	ErrNoClaim = fmt.Errorf("no such claim (%w)", ErrRefused)

	// ErrClosed: the engine was closed.
	ErrClosed = fmt.Errorf("engine closed (%w)", ErrRefused)
)

// ErrURL marks what an Open says of a URL that cannot be an engine's: it cannot be
// read, or has a parameter that the engine does not know. Asking again cannot help.
var ErrURL = errors.New("no URL of an engine")

// Refuse makes an error that is [ErrRefused].
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// LimitError is the [ErrLimit] of one name.
type LimitError struct {
	Name       string
	Have, Want int32 // what the queue has, what the request wanted
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%q has the limit %d, this request wants %d: let every user of a name agree on one limit (exclusive and shared use %d)",
		e.Name, e.Have, e.Want, Max)
}

// Is makes a LimitError an [ErrLimit] and an [ErrRefused].
func (e *LimitError) Is(target error) bool { return target == ErrLimit || target == ErrRefused }

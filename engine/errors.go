package engine

import (
	"errors"
	"fmt"
)

// ErrRefused marks an answer that is final: the call left nothing behind, and asking
// again cannot help. Every other error of an engine means that nothing was learned.
var ErrRefused = errors.New("refused")

var (
	// ErrName is returned when a name cannot be locked. Use valid UTF-8 of 1 to MaxName
	// bytes without NUL.
	ErrName = fmt.Errorf("invalid lock name (%w)", ErrRefused)

	// ErrLimit is returned when claims disagree on a name's limit. [LimitError] has
	// both.
	ErrLimit = fmt.Errorf("limits disagree (%w)", ErrRefused)

	// ErrNoClaim is returned when no claim has that ticket, or none any more.
	ErrNoClaim = fmt.Errorf("no such claim (%w)", ErrRefused)

	// ErrClosed is returned after Close of the engine.
	ErrClosed = fmt.Errorf("engine closed (%w)", ErrRefused)
)

// ErrURL marks an error about a URL that is not an engine's: it cannot be parsed, or has a
// parameter that the engine does not know or a value that it does not take. Asking again
// cannot help.
var ErrURL = errors.New("no URL of an engine")

// Refuse returns an error that is [ErrRefused].
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// LimitError is the [ErrLimit] of one name.
type LimitError struct {
	Name string
	// Have is the limit of the queue, Want that of the request.
	Have, Want int32 // what the queue has, what the request wanted
}

// Error returns both limits and what to do.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%q has the limit %d, but this request wants %d: let every user of a name agree on one limit (exclusive and shared use %d)",
		e.Name, e.Have, e.Want, Max)
}

// Is makes a LimitError an [ErrLimit] and an [ErrRefused].
func (e *LimitError) Is(target error) bool { return target == ErrLimit || target == ErrRefused }

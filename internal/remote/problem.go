package remote

import (
	"errors"
	"fmt"

	"leasehold/engine"
)

// Problem is an error of an engine, or of a service that did not ask one. Only these kinds
// mean something to the core of leasehold; the text is for people.
type Problem struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`

	// Of KindLimit.
	Name string `json:"name,omitempty"`
	Have int32  `json:"have,omitempty"`
	Want int32  `json:"want,omitempty"`
}

// Kind says what a caller may conclude.
type Kind string

const (
	KindUnknown     Kind = "unknown"     // nothing was learned: ask again
	KindRefused     Kind = "refused"     // final
	KindUnsupported Kind = "unsupported" // final: the engine does not have it
	KindName        Kind = "name"        // final: it cannot be locked
	KindLimit       Kind = "limit"       // final: the limits disagree
	KindNoClaim     Kind = "no-claim"    // final
)

// ProblemOf is err for the wire; nil is nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	p := &Problem{Kind: KindUnknown, Text: err.Error()}
	limit, _ := errors.AsType[*engine.LimitError](err)
	switch {
	case limit != nil:
		p.Kind, p.Name, p.Have, p.Want = KindLimit, limit.Name, limit.Have, limit.Want
	case errors.Is(err, engine.ErrClosed): // the engine of the service, which is about to end
	case errors.Is(err, engine.ErrName):
		p.Kind = KindName
	case errors.Is(err, engine.ErrNoClaim):
		p.Kind = KindNoClaim
	case errors.Is(err, errors.ErrUnsupported):
		p.Kind = KindUnsupported
	case errors.Is(err, engine.ErrRefused):
		p.Kind = KindRefused
	}
	return p
}

// Err is the error that p stands for; nil for nil.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	switch p.Kind {
	case KindLimit:
		return &engine.LimitError{Name: p.Name, Have: p.Have, Want: p.Want}
	case KindName:
		return said{p.Text, engine.ErrName}
	case KindNoClaim:
		return said{p.Text, engine.ErrNoClaim}
	case KindUnsupported:
		return said{p.Text, fmt.Errorf("%w: %w", engine.ErrRefused, errors.ErrUnsupported)}
	case KindRefused:
		return said{p.Text, engine.ErrRefused}
	}
	return errors.New(p.Text)
}

// said is an error that was one already at the service: its text says all, once.
type said struct {
	text string
	kind error
}

func (e said) Error() string { return e.text }
func (e said) Unwrap() error { return e.kind }

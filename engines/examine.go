package engines

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"leasehold/engine"
)

// ExamineWithin bounds an examination, however large or slow the store is.
const ExamineWithin = time.Minute

// Examine reports what is dangerous for locks in the store that rawURL names; empty means
// [Default]. It opens no engine: it only reads, makes no table and writes no key. It calls
// found after the whole store was read, the worst finding first. A part of the store that
// the user of the URL may not read is a finding.
//
// Errors: [ErrURL]; a store that cannot be reached, or does not answer within
// [ExamineWithin]. No error shows a password.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	rawURL = cmp.Or(rawURL, Default)
	s, err := schemeOf(rawURL)
	if err != nil {
		return err
	}
	all, err := s.examineWithin(ctx, rawURL, o)
	if err != nil {
		return conceal(rawURL, err)
	}
	for _, f := range all {
		found(f)
	}
	return nil
}

// examineWithin examines in a goroutine of its own, as openWithin opens.
func (s Scheme) examineWithin(ctx context.Context, rawURL string, o engine.ExamineOptions) ([]engine.Finding, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ExamineWithin, errTooSlow)
	defer cancel()
	type result struct {
		all []engine.Finding
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		err := s.examine(ctx, rawURL, o, func(f engine.Finding) { r.all = append(r.all, f) })
		r.err = over(ctx, err)
		done <- r
	}()
	select {
	case r := <-done:
		return r.all, r.err
	case <-ctx.Done():
	}
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case r := <-done:
		return r.all, r.err
	case <-last.C:
		return nil, context.Cause(ctx)
	}
}

// errTooSlow is the cause of a context that ExamineWithin ended.
var errTooSlow = fmt.Errorf("the store was not read within %v: lower the limit: %w", ExamineWithin, context.DeadlineExceeded)

// noExamination is of an engine that has nothing to read.
func noExamination(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return fmt.Errorf("%w that can be examined: there is no store behind it", ErrURL)
}

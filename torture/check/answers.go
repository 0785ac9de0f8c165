package check

import "leasehold/torture/check/linear"

// answers: there is an order of the calls of the engine itself, in which package queue gives
// the same answers.
func (t *trial) answers() error {
	r, err := linear.Check(t.events, linear.Options{})
	if err != nil {
		return err
	}
	t.judged[Queue], t.undecided = r.Calls-r.Lost-r.Undecided, r.Undecided
	for _, f := range r.Findings {
		// What a fault has done to a queue may show itself in any later answer, and an engine that
		// forgot may have everybody wait behind nobody.
		t.report(Finding{Property: Queue, At: f.At, Declared: t.causeSince(f.Since, f.At, t.forgets), Lines: f.Lines, Text: f.Text}, f.Name)
	}
	return nil
}

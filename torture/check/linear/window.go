package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"
)

// check goes through the windows of a name.
func (n *name) check() (finding *Finding, undecided int) {
	var answers []int // calls, by their answers
	for i := range n.calls {
		if n.calls[i].answer >= 0 {
			answers = append(answers, i)
		}
	}
	slices.SortFunc(answers, func(a, b int) int { return cmp.Compare(n.calls[a].answer, n.calls[b].answer) })
	from := start()
	for done := 0; done < len(answers); done += n.options.Window {
		after := 0 // the event with which the window begins
		if done > 0 {
			after = n.calls[answers[done-1]].answer
		}
		for c := &n.calls[n.first]; max(c.answer, c.begin) <= after; c = &n.calls[n.first] {
			n.first++
		}
		window := answers[done:min(done+n.options.Window, len(answers))]
		to, decided := n.window(from, after, n.calls[window[len(window)-1]].answer)
		switch {
		case !decided:
			return nil, len(answers) - done
		case to == nil:
			return n.blame(from, after, window), len(answers) - done - len(window)
		}
		from = to
	}
	return nil, 0
}

// blame finds the first answer that no order explains: with each answer less there are
// fewer demands.
func (n *name) blame(from *worlds, after int, window []int) *Finding {
	first, _ := slices.BinarySearchFunc(window, true, func(i int, _ bool) int {
		if to, decided := n.window(from, after, n.calls[i].answer); decided && to == nil {
			return 0
		}
		return -1
	})
	c := &n.calls[window[min(first, len(window)-1)]]
	before := from
	if first > 0 {
		before, _ = n.window(from, after, n.calls[window[first-1]].answer)
	}
	return &Finding{
		Name: n.name, Since: n.calls[0].start, At: c.end, Lines: []int{c.begin + 1, c.answer + 1},
		Text: fmt.Sprintf("no order of the calls explains that %s: before this answer the queue was %s", n.describe(c), n.views(before)),
	}
}

// window returns every possibility in which the queue can be after the answer at the event
// upto, if it was one of from after the event after. There is none if no order explains the
// answers in between. It is undecided if there are too many.
//
// Porcupine looks for one order and stops. So the last operation is a probe that notes where
// it is and never fits: then porcupine tries every order.
func (n *name) window(from *worlds, after, upto int) (to *worlds, decided bool) {
	const probe = -1
	var mu sync.Mutex // a search that timed out goes on for a moment
	var reached []*world
	tooMany := false
	seen := map[string]bool{}

	var ops []porcupine.Operation
	for i := n.first; i < len(n.calls) && n.calls[i].begin <= upto; i++ {
		c := &n.calls[i]
		switch {
		case c.answer >= 0 && c.answer <= after || c.answer < 0 && c.begin <= after: // checked before
		case c.answer < 0: // that it was sent is known at once
			ops = append(ops, porcupine.Operation{Input: i, Call: 2 * int64(c.begin), Return: 2*int64(c.begin) + 1})
		default:
			end := 2 * int64(c.answer)
			ops = append(ops, porcupine.Operation{Input: i, Call: 2 * int64(max(c.begin, after)), Return: end})
		}
	}
	ops = append(ops, porcupine.Operation{Input: probe, Call: 2*int64(upto) + 1, Return: 2*int64(upto) + 2})
	for i := range ops {
		ops[i].ClientId = i
	}

	model := porcupine.Model{
		Init:  func() any { return from },
		Equal: func(a, b any) bool { return a.(*worlds).key == b.(*worlds).key },
		Step: func(state, input, _ any) (bool, any) {
			at, i := state.(*worlds), input.(int)
			if i == probe {
				mu.Lock()
				defer mu.Unlock()
				if seen[at.key] {
					return false, state
				}
				seen[at.key] = true
				for _, w := range at.all {
					all, many := n.due(w, upto+1)
					reached, tooMany = append(reached, all...), tooMany || many
				}
				return false, state
			}
			next, many := n.step(at, i, n.calls[i].answer <= upto)
			if many {
				mu.Lock()
				defer mu.Unlock()
				tooMany = true
			}
			return next != nil && !many, next
		},
	}
	result := porcupine.CheckOperationsTimeout(model, ops, n.options.For)
	mu.Lock()
	defer mu.Unlock()
	switch {
	case tooMany || result == porcupine.Unknown:
		return nil, false
	case len(reached) == 0:
		return nil, true
	}
	to = gather(reached)
	return to, len(to.all) <= n.options.States
}

// describe is a call and its answer in words.
func (n *name) describe(c *call) string {
	what := fmt.Sprintf("%s of %s by %s", c.ask.Method, c.ask.Claim, c.client)
	if c.ask.Method == revoke {
		what = fmt.Sprintf("revoke of ticket %d by %s", c.ask.Ticket, c.client)
	}
	if c.ask.Method == join {
		what += fmt.Sprintf(" (%d of %d)", c.permits, c.limit)
		if c.ask.NoWait {
			what += " without waiting"
		}
		if c.replaces != 0 {
			what += " in place of " + c.ask.Replaces
		}
	}
	answer := c.result
	if c.have != 0 {
		answer += fmt.Sprintf(", since the limit is %d", c.have)
	}
	if c.got.State != "" {
		answer = c.got.State
	}
	if c.got.Ticket != 0 {
		answer += fmt.Sprintf(" with ticket %d", c.got.Ticket)
	}
	return what + " was answered " + answer
}

// views are a few of the possibilities in words.
func (n *name) views(ws *worlds) string {
	if ws == nil {
		return "not known"
	}
	names := map[uint64]string{}
	for claim, number := range n.claims {
		names[number] = claim
	}
	var views []string
	for _, w := range ws.all {
		var line []string
		for i := range w.queue.Places {
			p := &w.queue.Places[i]
			state := waiting
			if p.Held {
				state = held
			}
			if p.Revoked {
				state = "revoked"
			}
			line = append(line, fmt.Sprintf("%s %s (%d of %d)", names[number(p.ID)], state, p.Permits, w.queue.Limit))
		}
		view := "[" + strings.Join(line, ", ") + "]"
		if !slices.Contains(views, view) {
			views = append(views, view)
		}
	}
	if len(views) > 4 {
		views = append(views[:4], fmt.Sprintf("%d more", len(views)-4))
	}
	return strings.Join(views, " or ")
}

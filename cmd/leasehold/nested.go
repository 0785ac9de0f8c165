package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/internal/view"
)

// A command that runs under a name and runs leasehold for the same name would
// wait for itself. So "run" tells what it starts which names are held above it,
// all of them (a run of a, of b, of a again), in LEASEHOLD_HELD. Whether that
// is still so, and on the same engine, the engine knows: tickets do not repeat.
// What was left running by a run that has ended finds no such claim, and waits
// its turn like everybody.

// outerHold is one name that a run above this process obtained.
type outerHold struct {
	Name  string          `json:"name"`
	Token leasehold.Token `json:"token"`
}

const heldVariable = "LEASEHOLD_HELD"

// outerHolds reads them from the environment, the outermost first.
func outerHolds() (held []outerHold, err error) {
	text := os.Getenv(heldVariable)
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return nil, usageError("read %s: it is not as leasehold wrote it (%w); unset it", heldVariable, err)
	}
	return held, nil
}

// asHolds is what a run says that it holds: the innermost first. One of another
// engine names a claim that this one does not have, which counts for nothing.
func asHolds(held []outerHold) (holds []engine.Hold) {
	for _, h := range slices.Backward(held) {
		holds = append(holds, engine.Hold{Name: h.Name, Ticket: h.Token.Ticket()})
	}
	return holds
}

// environ is this process's environment with what a command under a lease
// finds in it. The token is what a resource takes: the text of the pass, and
// empty where no resource could judge it (permits, an engine without fencing).
// The token of an outer run must not stand there instead.
func environ(pass fence.Pass, held []outerHold) []string {
	text, _ := json.Marshal(held) // plain values always marshal
	shown := ""
	if pass.Valid() == nil {
		shown = pass.String()
	}
	ours := []string{"LEASEHOLD_NAME=" + pass.Name, "LEASEHOLD_TOKEN=" + shown, heldVariable + "=" + string(text)}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(ours, func(our string) bool {
			key, _, _ := strings.Cut(our, "=")
			return strings.HasPrefix(kv, key+"=")
		})
	})
	return append(env, ours...)
}

// nested looks whether a run above this one holds the name. Then it is an
// error, or, with --reentrant, the environment in which to run under that hold.
func (a *app) nested(ctx context.Context, o *order) (env []string, err error) {
	held, err := outerHolds()
	if err != nil {
		return nil, err
	}
	tokens := map[uint64]leasehold.Token{}
	for _, h := range held {
		if h.Name == o.Name {
			tokens[h.Token.Ticket()] = h.Token
		}
	}
	if len(tokens) == 0 {
		return nil, nil
	}
	locks, err := a.open(ctx, leasehold.Options{FailFast: true})
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	l, err := locks.Queue(ctx, o.Name)
	if err != nil {
		return nil, fmt.Errorf("find out whether the run above this one holds %s: %w", quoteName(o.Name), err)
	}
	for _, c := range l.Claims {
		token, ok := tokens[c.Ticket]
		switch {
		case !ok || c.State == engine.Waiting:
		case !o.within(c):
			return nil, &exitError{o.Conflict, fmt.Errorf("%s is held by the run above this one as %s (ticket %d), which is less than this run asks for: "+
				"ask for more in the run above", quoteName(o.Name), view.ModeText(c), c.Ticket)}
		case o.Command == nil: // acquire, which has nothing to run under it
			return nil, &exitError{o.Conflict, fmt.Errorf("%s is held by the run above this one, as %s (ticket %d), and would wait for itself: "+
				"continue under that hold", quoteName(o.Name), view.ModeText(c), c.Ticket)}
		case !o.Reentrant:
			return nil, &exitError{o.Conflict, fmt.Errorf("%s is held by the run above this one, as %s (ticket %d), and would wait for itself: "+
				"give run --reentrant to run under that hold", quoteName(o.Name), view.ModeText(c), c.Ticket)}
		default:
			pass := fence.Pass{Name: o.Name, Token: token, Mode: engine.ModeOf(c.Permits, c.Limit)}
			if locks.Guarantees().Fencing == engine.FencingNone {
				pass.Token = 0 // as fence.Of
			}
			return environ(pass, held), nil
		}
	}
	return nil, nil
}

// within reports whether the holder of c may do what the order asks for.
func (o *order) within(c engine.Claim) bool {
	permits, limit := int32(engine.Max), int32(engine.Max)
	switch {
	case o.Shared:
		permits = 1
	case o.Permits > 0:
		permits, limit = o.Permits, o.Of
	}
	return c.Limit == limit && c.Permits >= permits
}

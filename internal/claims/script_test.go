package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"leasehold/engine"
)

// The scripts in testdata: inputs of one machine, one by one, and what it does then: its
// trace, and each claim whose state is not as it was last said. A caller has a name, which
// is that of its lease too, and a claim the number in the order of making. Times count
// from the beginning. Every arrow of Phase.follows is gone along by some script, and no
// other by any.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	along, ran := map[string]bool{}, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			ran++
			var s *script
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "machine" {
					s = newScript(t, d)
					s.along = along
					return ""
				}
				s.t = t
				return s.run(d)
			})
		})
	}
	if ran < len(files) {
		return // of -run
	}
	for arrow := range arrows {
		if !along[arrow] {
			t.Errorf("no script has a claim go from %s, which is an arrow of Phase.follows", arrow)
		}
	}
}

// script is a machine that a script drives.
type script struct {
	*rig
	begin   time.Duration
	callers map[string]*Caller
	claims  map[uint64]*Claim
	wants   map[*Claim]time.Duration // of the last Renew asked for
	shown   map[uint64]string
	along   map[string]bool // the arrows that claims of all scripts went along
	empty   bool            // nothing was left after the last command
	out     strings.Builder
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	s := &script{callers: map[string]*Caller{}, claims: map[uint64]*Claim{}, wants: map[*Claim]time.Duration{}, empty: true, shown: map[uint64]string{}}
	cfg := Config{Detached: d.HasArg("detached"), Observed: d.HasArg("observed"), NoLocalHandoff: d.HasArg("no-local-handoff"),
		FailFast: d.HasArg("fail-fast"), Unordered: d.HasArg("unordered"), IdleTimeout: s.duration(d, "idle-timeout", 0), Longest: s.duration(d, "longest", 0), Trace: s.step}
	s.rig = newRig(t, cfg)
	s.begin = s.now
	return s
}

// run does one command, and says what came of it.
func (s *script) run(d *datadriven.TestData) string {
	s.out.Reset()
	m, now := s.Machine, s.now
	switch d.Cmd {
	case "enter":
		m.Enter(now, s.caller(d))
	case "enter-behind":
		s.say("%v", m.EnterBehind(s.caller(d)))
	case "make-room":
		m.ReleaseIdle(now, s.caller(d))
	case "give-up":
		c := s.who(d)
		if !m.GiveUp(now, c) {
			s.say("it was answered already")
			break
		}
		s.say("%s gave up: ticket %d, silent %v, error %v", c.Tag, c.Ticket, c.Silent, c.Err)
	case "unlock":
		m.Unlock(now, s.who(d).Lease, !d.HasArg("do-not-keep"))
	case "detach":
		m.Detach(now, s.who(d).Lease)
	case "poll":
		m.Expire(now, s.who(d).Lease)
		s.say("over: %v", s.who(d).Lease.Over())
	case "lease":
		l := s.who(d).Lease
		detached, reentered := l.Detachable()
		s.say("over: %v, ended: %v, lost: %v, contended: %v, detachable: %v, re-entered: %v", l.Over(), l.Ended(), l.Lost(), l.Contended(), detached, reentered)
	case "adopt":
		token := strings.Split(d.CmdArgs[3].Key, ":")
		ticket, handoffs := s.number(token[0]), s.number(token[1])
		id := engine.ID{15: byte(s.number(d.CmdArgs[2].Key))}
		got := s.got(d, &Claim{id: id, ticket: ticket, callers: &callers{key: key{name: d.CmdArgs[1].Key}}}, 4, ttl)
		m.Adopt(now, now-s.duration(d, "took", 0), s.caller(d), id, ticket<<engine.HandoffBits|handoffs, got)
	case "joined":
		cl := s.claim(d)
		got := s.got(d, cl, 1, cl.waitTTL)
		m.Joined(now, cl, now-s.duration(d, "took", 0), got, s.err(d), d.HasArg("cancelled"))
	case "renewed":
		cl := s.claim(d)
		want := s.duration(d, "want", s.wants[cl])
		var got []engine.Claim
		if one := s.got(d, cl, 1, want); one.State != engine.Unknown {
			got = append(got, one)
		}
		m.Renewed(now, now-s.duration(d, "took", 0), []engine.Renewal{{Name: cl.Name(), ID: cl.ID(), Want: want}}, got, s.err(d))
	case "left":
		cl := s.claim(d)
		var got []engine.Claim
		if one := s.got(d, cl, 1, 0); one.State != engine.Unknown {
			got = append(got, one)
		}
		m.Left(now, []engine.Claim{{Name: cl.Name(), ID: cl.ID()}}, got, s.err(d))
	case "notified":
		m.Notified(now, s.got(d, s.claim(d), 1, 0))
	case "began":
		m.Began(now)
	case "answered":
		m.Answered(now, s.err(d))
	case "renew-all":
		m.RenewAll(now)
	case "tick":
		m.Tick(now)
	case "close":
		m.Close(now)
	case "after": // with the Ticks that are due
		s.after(s.parse(d.CmdArgs[0].Key))
	case "stopped": // without
		s.now += s.parse(d.CmdArgs[0].Key)
	case "handed-off": // so often already
		s.claim(d).handoffs = uint16(s.number(d.CmdArgs[1].Key))
	case "hold": // enter, and the Join is answered at once
		c := s.caller(d)
		m.Enter(now, c)
		s.out.Reset()
		m.Joined(now, c.callers.current, now, s.got(d, c.callers.current, len(d.CmdArgs)-1, c.callers.current.waitTTL), nil, false)
	case "holds":
		for _, h := range s.who(d).Lease.Holding().Holds(m, int(s.number(d.CmdArgs[1].Key))) {
			s.say("holds %s/%d", h.Name, h.Ticket)
		}
	case "place":
		ticket, waits := m.Place(s.who(d))
		s.say("ticket %d, waits %v", ticket, waits)
	default:
		d.Fatalf(s.t, "what is %q?", d.Cmd)
	}
	s.gather()
	s.outs = nil
	s.showClaims()
	if claims, callersOf := m.Len(); s.empty != (claims+callersOf+len(m.timers) == 0) {
		if s.empty = !s.empty; s.empty {
			s.say("nothing is left")
		}
	}
	return s.out.String()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// step says what the machine traces, outputs with all that they say.
func (s *script) step(st Step) {
	text, isOutput := strings.CutPrefix(st.Text, "out: ")
	switch {
	case strings.HasPrefix(st.Text, "in: "):
	case !isOutput:
		s.say("%s/%d %s", st.Name, st.Ticket, text)
		if s.along[text] = true; !arrows[text] {
			s.t.Errorf("a claim goes from %s, which is no arrow of Phase.follows", text)
		}
	default:
		o := &s.Machine.outputs[len(s.Machine.outputs)-1]
		s.say("%s", s.output(o))
	}
}

func (s *script) output(o *Output) string {
	text := o.Act.String()
	if cl := o.Claim; cl != nil {
		s.claims[cl.serial] = cl
		text += fmt.Sprintf(" #%d", cl.serial)
		if o.Act == Renew {
			s.wants[cl] = o.Want
		}
	}
	if o.Act == Join {
		r := o.Claim.Request()
		text += fmt.Sprintf(": %s, %d of %d, for %v", r.Name, r.Permits, r.Limit, r.WaitTTL)
		text = strings.ReplaceAll(text, strconv.Itoa(engine.Max), "all")
		if r.NoWait {
			text += ", no wait"
		}
		if r.Detached {
			text += ", detached"
		}
		if r.Replaces != (engine.ID{}) {
			for n, cl := range s.claims {
				if cl.id == r.Replaces {
					text += fmt.Sprintf(", replaces #%d", n)
				}
			}
		}
	}
	if o.Caller != nil {
		text += fmt.Sprintf(", %s", o.Caller.Tag)
	}
	if o.Lease != nil && o.Caller == nil {
		text += fmt.Sprintf(", %s", s.owner(o.Lease))
	}
	if o.Act == Deliver {
		l := o.Lease
		text += fmt.Sprintf(" holds #%d, token %d:%d, since %v until %v", l.claim.serial, l.Token>>engine.HandoffBits, l.Token&(1<<engine.HandoffBits-1), s.at(l.HeldAt), s.at(l.Ends()))
		if o.HandedOff {
			text += ", handed off"
		}
	}
	if o.Reason != OK || o.Act == End {
		text += ": " + o.Reason.String()
	}
	if o.Want > 0 {
		text += fmt.Sprintf(" for %v", o.Want)
	}
	if o.Bound > 0 {
		text += fmt.Sprintf(" within %v", o.Bound)
	}
	if o.Err != nil {
		text += fmt.Sprintf(" (%v)", o.Err)
	}
	return text
}

// showClaims says what is not as it was last said.
func (s *script) showClaims() {
	for _, cl := range s.Machine.inOrder() {
		s.claims[cl.serial] = cl
	}
	for _, n := range slices.Sorted(maps.Keys(s.claims)) {
		cl := s.claims[n]
		if text := s.describe(cl); text != s.shown[n] {
			s.shown[n] = text
			s.say("    #%d %s", n, text)
		}
	}
}

func (s *script) describe(cl *Claim) string {
	text := fmt.Sprintf("%s/%d %v", cl.Name(), cl.ticket, cl.phase)
	if cl.phase == Gone {
		return text
	}
	switch {
	case cl.index < 0:
	case cl.due <= s.now:
		text += ", due"
	default:
		text += fmt.Sprintf(", due at %v", s.at(cl.due))
	}
	if cl.trustedUntil() > 0 {
		text += fmt.Sprintf(", proven until %v", s.at(cl.ends()))
	}
	if cl.phase.used() {
		text += fmt.Sprintf(", held since %v", s.at(cl.heldAt))
	}
	if cl.contention.yes {
		text += ", contended"
		if cl.contention.budget != notCounted {
			text += fmt.Sprintf(", %d handoffs left", cl.contention.budget)
		}
	}
	for _, o := range []struct {
		what string
		is   bool
	}{{"MinHold", cl.minHold > 0}, {"MaxHold", cl.maxHold > 0}, {"NoRenew", cl.noRenew}, {"detached", cl.detached}} {
		if o.is {
			text += ", " + o.what
		}
	}
	if cl.inflight > 0 {
		text += fmt.Sprintf(", %d renewals under way", cl.inflight)
	}
	var users []string
	for l := cl.leases; l != nil; l = l.next {
		user := s.owner(l)
		if l.Contended() {
			user += " (contended)"
		}
		users = append(users, user)
	}
	if users != nil {
		text += ", used by " + strings.Join(users, " and ")
	}
	if cl.callers.current == cl {
		for c := cl.callers.head; c != nil; c = c.next {
			text += fmt.Sprintf(", %s waits", c.Tag)
		}
	}
	return text
}

func (s *script) at(t time.Duration) time.Duration { return t - s.begin }

func (s *script) owner(l *Lease) string { return l.Tag.(string) }

// caller is who the command begins with, and what it asks for.
func (s *script) caller(d *datadriven.TestData) *Caller {
	name := d.CmdArgs[0].Key
	if c := s.callers[name]; c != nil && c.Lease.claim == nil && c.callers == nil {
		return c // it asked for room first
	}
	w := exclusive(d.CmdArgs[1].Key)
	if d.HasArg("shared") {
		w.Permits = 1
	}
	var permits, limit int
	if d.HasArg("permits") {
		d.ScanArgs(s.t, "permits", &permits, &limit)
		w.Permits, w.Limit = int32(permits), int32(limit)
	}
	w.TTL, w.MinHold, w.MaxHold = s.duration(d, "ttl", w.TTL), s.duration(d, "min-hold", 0), s.duration(d, "max-hold", 0)
	w.NoWait, w.NoRenew, w.Detached, w.Reentrant = d.HasArg("no-wait"), d.HasArg("no-renew"), d.HasArg("detached"), d.HasArg("reentrant")
	c := &Caller{Want: w, Lease: &Lease{Tag: name}, Tag: name}
	if d.HasArg("under") {
		var outer string
		d.ScanArgs(s.t, "under", &outer)
		c.Lease.Outer = s.callers[outer].Lease.Holding()
	}
	s.callers[name] = c
	return c
}

func (s *script) who(d *datadriven.TestData) *Caller {
	c := s.callers[d.CmdArgs[0].Key]
	if c == nil {
		d.Fatalf(s.t, "who is that?")
	}
	return c
}

func (s *script) claim(d *datadriven.TestData) *Claim {
	cl := s.claims[s.number(strings.TrimPrefix(d.CmdArgs[0].Key, "#"))]
	if cl == nil {
		d.Fatalf(s.t, "there is no such claim")
	}
	return cl
}

// got is what the engine says of a claim: a state, as the i-th argument, and more.
func (s *script) got(d *datadriven.TestData, cl *Claim, i int, granted time.Duration) engine.Claim {
	got := engine.Claim{Name: cl.Name(), ID: cl.id, Ticket: cl.ticket, TTL: s.duration(d, "ttl", granted), PollAfter: s.duration(d, "poll-after", 0),
		Contended: d.HasArg("contended"), Revoked: d.HasArg("revoked")}
	if d.HasArg("ticket") {
		var ticket int
		d.ScanArgs(s.t, "ticket", &ticket)
		got.Ticket = uint64(ticket)
	}
	for _, state := range []engine.State{engine.Waiting, engine.Held, engine.Gone} {
		if d.CmdArgs[i].Key == state.String() {
			got.State = state
			return got
		}
	}
	return engine.Claim{}
}

// err is what came instead of an answer.
func (s *script) err(d *datadriven.TestData) error {
	switch {
	case d.HasArg("cut"):
		return errCut
	case d.HasArg("late"):
		return context.DeadlineExceeded
	case d.HasArg("cancelled"):
		return context.Canceled
	case d.HasArg("refused"):
		return engine.Refuse("too many claims")
	}
	return nil
}

func (s *script) duration(d *datadriven.TestData, name string, unless time.Duration) time.Duration {
	if !d.HasArg(name) {
		return unless
	}
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return s.parse(a.Vals[0])
		}
	}
	return unless
}

func (s *script) parse(text string) time.Duration {
	t, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return t
}

func (s *script) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(errors.New(text + " is no number"))
	}
	return n
}

package claims

// Phase is what a claim is for this client. A claim is in exactly one, and
// moves only along the arrows of the package documentation: Phase.follows has
// them, and the exploration holds every step against it.
type Phase uint8

const (
	// Joining: its Join is under way. Callers wait for it.
	Joining Phase = iota + 1

	// Indeterminate: its Join was not answered, or not sent yet (asked) since claims
	// before it were gone time and again. It is asked for, by the same ID, at the
	// claim's next.
	Indeterminate

	// Cancelled: its Join is under way and nobody waits for it any more. It is
	// left when the answer has come; a Leave sent now could overtake the Join.
	Cancelled

	// Waiting: in the queue, with no room yet.
	Waiting

	// Ready: the engine holds it for this client and no lease was made of it
	// yet. Callers wait until it is proven.
	Ready

	// InUse: leases are open.
	InUse

	// Draining: leases are open, all shared, and no further one is made of it,
	// since somebody waits behind it. It is given up with the last.
	Draining

	// Proving: held, its last lease has ended, and callers of this process wait
	// until it is proven anew.
	Proving

	// Idle: held for nobody, until its until (Config.IdleTimeout).
	Idle

	// Lingering: held for nobody, until its until (Want.MinHold).
	Lingering

	// Lost: its leases are lost and not all unlocked. The engine is not told
	// before they are: their holder may still be at work, and what the engine
	// remembers of the claim keeps others out.
	Lost

	// Replaced: the Join of another claim, under way, takes its place.
	Replaced

	// Releasing: the Leave of an Unlock is under way.
	Releasing

	// Leaving: given up; Leave is repeated until it is answered, or until its
	// until, when the claim has certainly expired.
	Leaving

	// Abandoned: given up before its Join was answered. The Join may still
	// arrive behind the Leave, so that is repeated until its until also where
	// the engine has no such claim.
	Abandoned

	// Gone: forgotten.
	Gone
)

var phaseNames = [...]string{"none", "joining", "indeterminate", "cancelled", "waiting", "ready", "in use", "draining",
	"proving", "idle", "lingering", "lost", "replaced", "releasing", "leaving", "abandoned", "gone"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "?"
}

type phases uint32

func set(ps ...Phase) (s phases) {
	for _, p := range ps {
		s |= 1 << p
	}
	return s
}

func (p Phase) in(s phases) bool { return s&(1<<p) != 0 }

// follows is every phase that p may turn into.
func (p Phase) follows() phases {
	switch p {
	case Joining:
		return set(Indeterminate, Cancelled, Waiting, Ready, Abandoned, Leaving, Gone)
	case Indeterminate:
		return set(Joining, Abandoned, Gone)
	case Cancelled:
		return set(Leaving, Abandoned, Gone)
	case Waiting:
		return set(Joining, Ready, Leaving, Gone) // Joining: without order
	case Ready:
		return set(Waiting, InUse, Leaving, Gone) // Waiting: made anew
	case InUse:
		return set(Draining, Proving, Idle, Lingering, Releasing, Lost, Gone)
	case Draining:
		return set(Releasing, Lost)
	case Proving:
		return set(InUse, Replaced, Leaving, Gone)
	case Idle:
		return set(InUse, Proving, Replaced, Releasing, Leaving, Gone)
	case Lingering:
		return set(Leaving, Gone)
	case Lost:
		return set(Leaving, Gone)
	case Replaced:
		return set(Leaving, Gone)
	case Releasing:
		return set(Leaving, Gone)
	case Abandoned:
		return set(Leaving, Gone)
	case Leaving:
		return set(Gone)
	}
	return 0
}

// What is true of several phases has one name here.
const (
	unanswered = 1<<Joining | 1<<Indeterminate | 1<<Cancelled                     // the engine has not said yet that there is such a claim
	open       = 1<<InUse | 1<<Draining                                           // leases of it are open
	engineHeld = 1<<Ready | open | 1<<Proving | 1<<Idle | 1<<Lingering            // the engine holds it, as far as is known
	wanted     = 1<<Waiting | engineHeld                                          // renewed, and reports of it mean something
	used       = engineHeld&^(1<<Ready) | 1<<Lost                                 // a lease was made of it
	givenUp    = 1<<Replaced | 1<<Releasing | 1<<Leaving | 1<<Abandoned | 1<<Gone // nobody wants it any more, and the engine is to forget it
)

func (p Phase) unanswered() bool { return p.in(unanswered) }
func (p Phase) wanted() bool     { return p.in(wanted) }
func (p Phase) open() bool       { return p.in(open) }
func (p Phase) used() bool       { return p.in(used) }
func (p Phase) givenUp() bool    { return p.in(givenUp) }

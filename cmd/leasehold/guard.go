package main

import "time"

// guard decides, from what the lease proves, when a command that is about to
// lose it must be told to end and when it must be killed. It has no clock of
// its own; all times are those of package boottime.
//
//	renewed            renewals fail              TERM         KILL
//	   |-----------------------|--------------------|------------|--|
//	   |<------------------ granted ------------------------------->|
//	                                                |<- granted/3 ->| until
//
// Killing takes time: processes have to be found, and to run once more to die.
// It begins so much earlier that they are gone when trust ends.
//
// A renewal moves until; a command that survived its TERM and whose lease was
// renewed after all goes on, and is told again the next time. Its end is no success.
type guard struct {
	until   time.Duration // the lease is trusted until then
	granted time.Duration // how long that was when it was proven
	end     time.Duration // MaxHold: killed then although trusted; 0: never
	lead    time.Duration // TERM so much earlier than end

	notified bool          // TERM was sent for the present until, or for good
	killAt   time.Duration // something ended the hold: killed then; 0: nothing did
}

// trust takes in that the lease was good for left at now. It reports whether
// that is news: the same moment, seen twice, differs by the time between two
// readings of the clock.
func (g *guard) trust(now, left time.Duration) (news bool) {
	until := now + left
	if until <= g.until+grain {
		return false
	}
	g.until, g.granted = until, left
	if g.killAt == 0 && (g.end == 0 || now < g.end-g.lead) {
		g.notified = false
	}
	return true
}

// grain is by how much an end of trust must move to be a renewal. Renewals
// are far apart: a third of engine.MinTTL at least.
const grain = 5 * time.Millisecond

// killTime is set aside for killing.
func (g *guard) killTime() time.Duration { return min(g.granted/20, 500*time.Millisecond) }

// lastResort is when the launcher acts if the keeper has not.
func (g *guard) lastResort() time.Duration { return g.until - g.killTime()/2 }

// finish ends the hold whatever renewals say: KILL after grace, or when trust
// ends if that is sooner. What was decided before is not put off.
func (g *guard) finish(now, grace time.Duration) {
	at := max(min(now+grace, g.until-g.killTime()), 1)
	if g.killAt == 0 || at < g.killAt {
		g.killAt = at
	}
}

// maxHoldPassed is whether MaxHold has passed at now, and did while the lease was trusted: then
// that is why the command is killed, and not that the lock could not be renewed.
func (g *guard) maxHoldPassed(now time.Duration) bool {
	return g.end != 0 && now >= g.end && g.end <= g.until-g.killTime()
}

type action uint8

const (
	nothing action = iota
	notify         // send TERM
	kill
)

// next is what to do at now, and when to ask again.
func (g *guard) next(now time.Duration) (do action, again time.Duration) {
	killAt, notifyAt := g.until-g.killTime(), g.until-g.granted/3
	if g.end != 0 {
		killAt, notifyAt = min(killAt, g.end), min(notifyAt, g.end-g.lead)
	}
	if g.killAt != 0 {
		killAt, notifyAt = g.killAt, 0
	}
	switch {
	case now >= killAt:
		return kill, 0
	case now >= notifyAt && !g.notified:
		g.notified = true
		return notify, killAt
	case g.notified:
		return nothing, killAt
	}
	return nothing, notifyAt
}

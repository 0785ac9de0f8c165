package mysqllock

import "time"

const (
	// pollOften is how often who is next polls at a queue that moves: 50 times a
	// second.
	pollOften = 20 * time.Millisecond

	// pollSeldom is how often anybody looks at a queue that stands still. In between
	// are pollOften times the powers of two, and this is one of them.
	pollSeldom = 32 * pollOften

	// pollRarely is the advice for those who have 128 or more ahead of them. The core looks after
	// a second all the same, so they look three times in it, at multiples of it the last time.
	// 10,000 clients that waited for one name had 15,600 calls a second of pollSeldom.
	pollRarely = 128 * pollOften

	// For a sixth of the time for which a queue has stood still those who are next
	// need not look, and the others for half of it, since it must move twice before
	// they hold.
	nextPatience, otherPatience = 6, 2

	// stillRelied is for how long a queue counts as standing still, at least, for a client
	// that relies on its doorbell: those who are next poll every 320 ms then.
	stillRelied = nextPatience * pollSeldom / 2
)

// look is how long a claim that waits should wait before it looks again: by how many
// wait ahead of it, and for how long nobody came to hold.
//
// A queue that moves is looked at often by those who are next, and half as often for
// each doubling of the place. One that stands still is looked at less and less. Where many
// ahead end at once, those far behind learn of it at their next look or renewal. All
// claims of a client that are looked at equally often are looked at together, and with
// those that are looked at more often: looks are due at multiples of an interval, and
// intervals are pollOften times powers of two. So a client makes at most 50 calls a
// second for all its claims together, up to a hundred of them, and one whose queues stand
// still at most two.
//
// now is of the client's clock, from any beginning.
func pollAfter(ahead int, still, now time.Duration) time.Duration {
	least := still / otherPatience
	if ahead < 2 {
		least = still / nextPatience
	}
	least = max(min(least, pollSeldom), time.Duration(ahead)*pollOften)
	interval := pollOften
	for interval < pollRarely && 2*interval <= least {
		interval *= 2
	}
	return interval - now%interval
}

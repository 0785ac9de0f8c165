package linear

import (
	"time"

	"leasehold/torture/history"
)

// keepsTheDead is what Declares.CrashRelease says of an engine that keeps the claims of a
// client that has ended for their TTL.
const keepsTheDead = "ttl"

// deaths is from when on the claims of each client may have ended with it: the last moment at
// which it certainly lived. Clients that go on are not in it.
//
// A client waits for the witness before it makes a call. So it lived when the witness stamped
// a call that was answered, and a mark proves the same. Nothing later proves it, not even the
// answer: the witness may stamp that after the client has ended. An Exit says that a client
// has ended. If the trial was cut short, the last Exits may be missing.
func deaths(events []history.Event) map[string]time.Duration {
	lived, calls, ended := map[string]time.Duration{}, map[int64]time.Duration{}, map[string]bool{}
	complete := false
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.Call:
			calls[e.Op] = e.At
			if _, before := lived[e.Client]; !before {
				lived[e.Client] = e.At // until now it had no claim that could end
			}
		case history.Answer:
			lived[e.Client] = max(lived[e.Client], calls[e.Op])
			delete(calls, e.Op)
		case history.Mark:
			lived[e.Client] = e.At
		case history.Exit:
			ended[e.Client] = true
		case history.End:
			complete = true
		}
	}
	for client := range lived {
		if complete && !ended[client] {
			delete(lived, client)
		}
	}
	return lived
}

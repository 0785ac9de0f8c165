package metrics

// Kind is the kind of a Metric.
type Kind uint8

// The kinds of a Metric.
const (
	Counter   Kind = iota + 1 // only grows
	Gauge                     // what is so now
	Histogram                 // durations in seconds
)

// Metric describes one metric.
type Metric struct {
	Name   string   // as the conventions of OpenTelemetry have it: leasehold.wait.duration
	Unit   string   // in UCUM: "s", "1", "{lease}", or "" where there is none
	Help   string   // one sentence
	Kind   Kind     //
	Labels []string // the labels of every value, beginning with LabelEngine
}

// The labels of metrics.
const (
	LabelEngine  = "engine"  // the name that Metrics.Client got
	LabelOutcome = "outcome" // of waiting: held or gave_up
	LabelReason  = "reason"
	LabelBy      = "by"   // what a lease began with: a claim of its own, or a handoff
	LabelName    = "name" // what Options.NameOf made of the name
)

// The metrics. Those of what is so now come from Client.Stats and have no name.
var (
	waitDuration = Metric{Name: "leasehold.wait.duration", Unit: "s", Kind: Histogram, Labels: []string{LabelEngine, LabelOutcome},
		Help: "How long calls for a lease took, until they had it or gave up."}
	holdDuration = Metric{Name: "leasehold.hold.duration", Unit: "s", Kind: Histogram, Labels: []string{LabelEngine},
		Help: "How long leases were held, until Unlock or loss."}
	granted = Metric{Name: "leasehold.granted", Unit: "{lease}", Kind: Counter, Labels: []string{LabelEngine, LabelBy},
		Help: "Leases that began, with a claim of their own or by local handoff."}
	gaveUp = Metric{Name: "leasehold.gave_up", Unit: "{call}", Kind: Counter, Labels: []string{LabelEngine, LabelReason},
		Help: "Calls that ended without a lease."}
	lost = Metric{Name: "leasehold.lost", Unit: "{lease}", Kind: Counter, Labels: []string{LabelEngine, LabelReason},
		Help: "Leases that ended before Unlock."}
	revoked = Metric{Name: "leasehold.revoked", Unit: "{claim}", Kind: Counter, Labels: []string{LabelEngine},
		Help: "Claims that these clients revoked, their own or another's."}
	deadlocks = Metric{Name: "leasehold.deadlocks", Unit: "{call}", Kind: Counter, Labels: []string{LabelEngine},
		Help: "Calls that gave up as the victim of a cycle."}
	outages = Metric{Name: "leasehold.engine.outages", Unit: "{outage}", Kind: Counter, Labels: []string{LabelEngine},
		Help: "Times the engine stopped answering a client."}

	failedCalls = Metric{Name: "leasehold.engine.failed_calls", Unit: "{call}", Kind: Counter, Labels: []string{LabelEngine},
		Help: "Calls that the engine did not answer."}
	held = Metric{Name: "leasehold.held", Unit: "{lease}", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "Leases that are open."}
	waiting = Metric{Name: "leasehold.waiting", Unit: "{call}", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "Calls that wait for a lease."}
	up = Metric{Name: "leasehold.engine.up", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "1 if the last call to the engine was answered for every client, 0 if not."}
	misconfigured = Metric{Name: "leasehold.engine.misconfigured", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "1 if the server is not configured as the engine declares, 0 if it is."}
	trustRemaining = Metric{Name: "leasehold.trust.remaining", Unit: "s", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "The shortest time until an open lease is lost unless a renewal succeeds; absent without a lease that is renewed."}
	trust = Metric{Name: "leasehold.trust", Unit: "1", Kind: Gauge, Labels: []string{LabelEngine},
		Help: "The smallest part of its time that is left to an open lease: above one half while renewals succeed; absent without a lease that is renewed."}
)

// List returns every Metric, in the order of All. With names, those that count events
// have the label LabelName, after the others.
func List(names bool) []Metric {
	events := []Metric{waitDuration, holdDuration, granted, gaveUp, lost, revoked, deadlocks}
	if names {
		for i, m := range events {
			events[i].Labels = append(m.Labels[:len(m.Labels):len(m.Labels)], LabelName)
		}
	}
	return append(events, outages, failedCalls, held, waiting, up, misconfigured, trustRemaining, trust)
}

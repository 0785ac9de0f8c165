// Package metrics counts what Clients do, for a system that watches them: how long
// callers waited and held, what was lost and why, what is held now, and whether the
// engine answers. It depends on no such system. Modules leasehold/prometheus and
// leasehold/otel hand its numbers over; [Metrics.All] is for any other.
//
// [Metrics.Client] makes a Client whose events are counted. A count costs an atomic
// addition and no memory.
//
// Names of locks are not labels, so the number of time series does not grow with them:
// one engine makes at most 50, counted as Prometheus does. [Options.NameOf] folds names
// into a few values of a label. [Options.MaxNames] bounds them, whatever NameOf returns.
package metrics

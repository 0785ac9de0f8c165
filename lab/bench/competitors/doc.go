// Package competitors adapts every lock that the bench drives, one file each: the
// competitors, the baselines (the least an engine can do, no lock anybody could use) and
// leasehold itself. A competitor is used as its own documentation says and waits as
// it waits by default; what that means stands in its Waits and About, and from
// there in docs/performance.md.
package competitors

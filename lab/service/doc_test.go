// Package service_test tries package service and package httplock on real stores: the
// conformance suite through both, and Servers that are processes of their own, killed and
// stopped under hundreds of leases and waiters.
package service_test

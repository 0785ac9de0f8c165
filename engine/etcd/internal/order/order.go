// Package order finds whom a claim waits for, from the permits of the claims of a queue,
// first to last. Which claims hold is the rule of package queue. The package knows no keys
// and no etcd.
package order

import "leasehold/engine/queue"

// Held returns how many claims hold: see [queue.Holders].
func Held(permits []int32, limit int32) int {
	return queue.Holders(len(permits), limit, func(i int) int32 { return permits[i] })
}

// Blockers returns claims ahead of claim i of which at least one must leave before i can
// hold: while all of them stand, claim i need not poll. The list is short, so that other
// changes wake nobody for nothing:
//
//   - It is the last claim ahead that alone leaves no room for i. Behind a writer that is
//     the claim just ahead; readers share the last writer ahead, which wakes them
//     together.
//   - If no claim does that alone (permits of a semaphore), it is the claims just ahead
//     that together leave no room.
//
// It returns nil if i holds.
func Blockers(permits []int32, i int, limit int32) []int {
	if i < Held(permits, limit) {
		return nil
	}
	for j := i - 1; j >= 0; j-- {
		if int64(permits[j])+int64(permits[i]) > int64(limit) {
			return []int{j}
		}
	}
	var window []int
	sum := int64(permits[i])
	for j := i - 1; sum <= int64(limit); j-- {
		sum += int64(permits[j])
		window = append(window, j)
	}
	return window
}

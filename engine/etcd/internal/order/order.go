// Package order says of the permits of a queue's claims, first to last, whom a claim
// waits for. Who holds is the one rule of package queue. It knows no keys and no etcd.
package order

import "leasehold/engine/queue"

// Held is how many claims hold: see [queue.Holders].
func Held(permits []int32, limit int32) int {
	return queue.Holders(len(permits), limit, func(i int) int32 { return permits[i] })
}

// Blockers are claims ahead of claim i of which at least one must leave before i
// can hold: while all of them stand there is nothing to look at. They are few, so
// that what others do wakes nobody for nothing:
//
//   - the last claim ahead that leaves no room for i by itself. Behind a writer
//     that is the claim just ahead; readers share the last writer ahead, which
//     wakes them together;
//   - where none does (permits of a semaphore), the claims just ahead that
//     together leave no room.
//
// None: i holds.
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

// Package order is the one rule of package engine over the permits of a queue's
// claims, first to last: who holds, and whom a claim waits for. It knows no keys
// and no etcd.
package order

// Held is how many claims hold: those at the front whose permits, summed up, are at
// most the limit.
func Held(permits []int32, limit int32) int {
	sum := int64(0)
	for i, u := range permits {
		if sum += int64(u); sum > int64(limit) {
			return i
		}
	}
	return len(permits)
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

// Package queuestore is an engine made of any store that can change one record in
// one step: a map under a mutex, a directory, a bbolt file, a row of a table, a
// key of Consul, NATS KV or FoundationDB.
//
//	Join, Renew, Leave, Revoke        an [Engine]: the nine rules of package engine
//	        |
//	   package queue                  one operation on one queue, as a pure value
//	        |
//	Change, Read, Records, Notify      a [Store]: yours, one to two hundred lines
//
// A record is where the store keeps the queue of one name. Every call of the engine
// is one Change: the store loads the record, has the engine apply one operation of
// package queue to it, and stores what came of it, with nobody in between. Only
// when that counts does the engine tell those concerned, through Notify.
//
// # What it promises
//
// Order, every mode, expiry decided once, replacing, revocation, inspection, Leave
// that says what it found: whatever is decided in the queue. The engine adds no
// goroutine of its own (but see [Liveness]), no timer, no retry and no memory of
// queues.
//
// # What it cannot
//
// It excludes as far as Change is one step, and no further. What the store may
// forget, how far its clock is trusted and who sees it is for the store to say,
// in [Store].Guarantees. A store with no clock of its own that all its clients
// share cannot decide expiry: a client's wall clock must not.
//
// # Writing a store
//
// Where the store keeps bytes, queue.Queue is an encoding.BinaryAppender and an
// encoding.BinaryUnmarshaler. With transactions, Change is
//
//	return db.Update(func(tx Tx) error {
//		record := queuestore.Record{Name: name, Now: clock(), Micros: wallClock()}
//		if b := tx.Get(name); b != nil {
//			if err := record.Queue.UnmarshalBinary(b); err != nil {
//				return err
//			}
//		}
//		if err := change(&record); err != nil {
//			return err // refused: there is nothing to store
//		}
//		b, err := record.Queue.AppendBinary(nil)
//		if err != nil {
//			return err
//		}
//		return tx.Put(name, b)
//	})
//
// and with compare-and-set it is a loop around the same: load the value and its
// revision, change, set it if the revision is still that one, begin again if it
// is not. A set whose answer was lost may have happened: begin again with
// [Record].Again.
//
// Records in which nobody is any more ([queue.Queue.Empty]) must go within a day, and
// tickets must go on rising over that: keep the highest Last of what was removed
// and give it to the queues of unknown names. examples/bboltlock does all of it.
package queuestore

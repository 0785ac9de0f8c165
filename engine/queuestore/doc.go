// Package queuestore makes an engine of any store that can change one record in one step.
// Examples are a map under a mutex, a directory, a bbolt file, a row of a table, and a key
// of Consul, NATS KV or FoundationDB.
//
//	Join, Renew, Leave, Revoke        an [Engine]: the nine rules of package engine
//	        |
//	   package queue                  one operation on one queue, as a pure value
//	        |
//	Change, Read, Records, Notify     a [Store]: yours, one to two hundred lines
//
// A record is where the store keeps the queue of one name. Every call of the engine is one
// Change. The store loads the record, the engine applies one operation of package queue to
// it, and the store stores the result, with no other change in between. Only then does the
// engine notify the clients concerned, through Notify.
//
// # What it promises
//
// It promises all that the queue decides: order, every mode, expiry decided once,
// replacing, revocation, inspection, and what Leave returns. The engine adds no goroutine
// of its own (but see [Liveness]), no timer, no retry and no memory of queues.
//
// # What it cannot promise
//
// The engine excludes as far as Change is one step, and no further. The store declares in
// [Store].Guarantees what it may forget, how far its clock is trusted and who sees it. A
// store needs one clock that all its clients share: a client's wall clock must not decide
// expiry.
//
// # Writing a store
//
// A store of bytes uses queue.Queue as an encoding.BinaryAppender and an
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
// With compare-and-set it is a loop around the same. Load the value and its revision,
// change the value, and set it if the revision is still the same; otherwise begin again. A
// set whose answer was lost may have happened: then begin again with [Record].Again.
//
// A store must remove empty records ([queue.Queue.Empty]) within a day, and tickets must
// go on rising after that. Keep the highest Last of the removed records and give it to the
// queues of unknown names. examples/bboltlock does all of it.
package queuestore

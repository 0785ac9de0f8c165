// Package tuslock is the locker of a tus server (github.com/tus/tusd/v2) that runs as
// several instances: requests for one upload exclude each other across processes and
// machines.
//
//	store := filestore.New("/shared/uploads")
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	locker, err := tuslock.New(locks, nil)
//	locker.UseIn(composer) // last: it guards the stores that are in use by then
//
// # What it promises
//
//   - A request that needs an upload which another instance holds asks the holder to stop. The
//     engine notifies the holder, or the holder learns of it when it renews its lease (a third of
//     [Options.TTL]). tusd then closes the body of the holder's request, saves what it
//     has, and unlocks.
//   - Uploads of a killed instance are free when the TTL has passed.
//   - A holder whose lease is lost is asked to stop, too. Behind [Locker.UseIn] it also stores
//     nothing more: the data store's context ends with the lease, and each read of the body
//     checks the lease first. So a process that was stopped and goes on does not append to what
//     the next holder has written.
//   - Two requests of one process never work on one upload, even after a loss: the second one
//     waits for the Unlock of the first.
//
// # What tusd cannot know
//
// A [handler.Lock] has one way to speak to its request, requestUnlock. tusd takes each call of it
// as "another request wants the upload". It answers the client with ERR_UPLOAD_INTERRUPTED, also
// after a loss, and lets the data store go on for GracefulRequestCompletionTimeout (10 s). Only
// the guard of UseIn ends that work with the lease. tusd drops the error of Unlock: an Observer
// of the client (leasehold.LogTo) reports losses.
//
// A process that pauses between the check of its lease and the write of the bytes that it has
// just read can still write these bytes late. tusd has no place for a token. A store that can
// compare one (a version, an ETag, an offset) closes that gap. The file store appends.
//
// # Engines without waiters
//
// Some engines do not show a holder that somebody waits (Guarantees.SeesWaiters): Redis with
// layout=plain, Redisson's layouts and redlock. A stalled upload would then keep other instances
// waiting until AcquireLockTimeout (20 s), and they would answer with an error. New refuses such
// an engine. [Options.AllowUnseenWaiters] takes it nevertheless.
package tuslock

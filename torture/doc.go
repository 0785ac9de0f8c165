// Package torture makes trials of locks: processes of their own lock, hold, lose and
// unlock names on one engine while faults strike, and a witness writes down all of it.
// Package history is what it writes, package check judges that without a server, and
// package report draws it.
//
// A program that makes trials is also its clients: torture starts copies of it.
//
//	func main() {
//		if torture.Client(engines.Open) {
//			return // this process was one of them
//		}
//		result, err := torture.Run(ctx, torture.Options{Open: engines.Open, URL: url})
//
// # What it promises
//
// It uses only names under a random prefix, and ends every claim on them before it
// returns, or says which it could not end. No process that it started outlives Run. The
// engine's URL, which may have a password, reaches the clients by their input: it is
// neither in the history nor in the arguments of a process.
//
// The witness stamps every event by its own clock. So no clock of a client matters, and a
// stopped or killed client proves nothing that it had not proved before.
//
// # What it cannot promise
//
// The seed decides what clients do and which fault comes when. It does not decide how the
// system schedules them: two trials with one seed differ.
package torture

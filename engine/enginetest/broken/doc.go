// Package broken is memlock behind a wire that tests can cut and, if asked,
// wrong in exactly one way. The wrong ones prove that the conformance suite
// can see: each must be caught by the file of the promise it breaks, and by
// no other that it keeps. Nothing here is for use outside tests.
package broken

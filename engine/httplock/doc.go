// Package httplock is the engine of a leasehold service (package service, leasehold serve):
// its queues are those of the engine behind the service. A program needs no client library
// of the store, no password to it and no network path to it.
//
//	https://locks.internal
//	https://locks-1.internal,locks-2.internal:8443?ca=ca.pem&token-file=/run/secrets/locks
//	http://127.0.0.1:7420                          only on the machine itself
//
// # What it promises
//
// It has the guarantees of the engine behind the service, with two exceptions: a killed
// client's names are free when their TTL has passed, and exclusion reaches all clients of
// the service. Claims are stored there, so any server of the service goes on with them.
// If the one that it uses does not answer, the client goes to the next address. It does so
// within 3 s if that server is stopped or cut off, which refuses nothing: a call without an
// answer asks the server whether it lives. A server that is only slow is not left.
//
// A granted TTL counts from the start of the call here, which is earlier than its start at
// the service. So the way there and back makes a lease shorter, and never longer.
//
// # Connections
//
// A client has one connection of HTTP/2 to the server that it uses, for notifications, renewals
// and all that looks. Joins and Leaves go over connections of HTTP/1.1, at most 64, and each is closed
// after a minute without a call. Something between the two ends must pass on both.
//
// # What it cannot promise
//
// A client that has changed the server is notified of claims once it has asked for them
// there, which the core does within seconds. Servers of one service must have one store:
// nothing here can find out that they do not.
//
// # Parameters
//
//	ca=, cert=, key=   files of TLS, see package engineurl
//	token-file=        the file of a bearer token (leasehold token). A token in the URL
//	                   itself is its password: https://:TOKEN@host
//	insecure           plain http:// to another machine: everybody on the way reads and
//	                   changes everything, claim IDs and the token too
package httplock

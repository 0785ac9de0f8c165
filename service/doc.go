// Package service gives programs in any language the locks of an engine, by HTTP. Programs
// with package leasehold use it as an engine (package httplock, https://), which needs no
// client library of the store, no password to it and no network path.
//
//	POST   /v1/locks/NAME      obtain NAME, or wait for it
//	PUT    /v1/locks/NAME      keep it for another TTL
//	DELETE /v1/locks/NAME      give it back
//	GET    /v1/queues          who holds what, and who waits
//	GET    /v1/queues/NAME
//	POST   /v1/revoke          end the claim of somebody else
//	GET    /v1/why/NAME        why NAME is not free
//	GET    /v1/watch           changes, as server-sent events
//	GET    /ui/                pages for people (package ui)
//	GET    /livez /readyz
//	POST   /v1/engine/...      what package httplock calls
//	LOCK   /v1/tofu/NAME       the http backend of OpenTofu and Terraform
//	UNLOCK /v1/tofu/NAME
//
// # What it promises
//
// A [Server] remembers nothing. Every claim is in the engine, under an ID that only its
// caller knows. So any number of Servers on one store are one service. A Server that dies
// loses no lease and no place in a queue: its callers go on with another one.
//
// An answer with status 200 has been proven by the engine. Times in it count from the
// moment at which the caller sent the request, so a slow network makes a lease shorter and
// never longer. No wall clock takes part.
//
// # What it cannot promise
//
// A remote caller is as far from its lease as its network is. Nobody notifies a program that
// only sends requests: it learns of a loss by its next request, or by the time that the
// last answer gave it. Package httplock is notified as the store notifies the Server.
//
// A claim outlives the Server that made it, so the engine must have detached claims
// (engine.Guarantees.Detach). Those of ZooKeeper end with the session of their client, which
// would be the Server: [New] refuses such an engine. A killed caller's names are free when
// their TTL has passed, on every engine.
package service

// Package servers starts real servers for tests and benchmarks: private
// instances on free loopback ports, each in a temporary folder of its own.
//
// Every server has two ways in. Start... returns an error and a value to
// Close, for programs; the short form (Redis, Sentinel, RedisCluster) takes a
// test, skips it loudly when the binary is missing, and closes by itself:
//
//	r := servers.Redis(t, nil)                  // in a test
//	r, err := servers.StartRedis(nil)           // in a program
//	defer r.Close()
//
// What it promises: a server is only ever ended by its own process id, it
// never listens on a default port or off loopback (except on a host of a
// [Network], which nobody else can reach), and on Linux it dies with the process
// that started it, even if that one is killed with -9.
//
// [Proxy] stands between a client and a server and counts, delays, holds, cuts
// and loses what passes. [Network] is named hosts that can be cut off, with
// what runs on them. [Disk] forgets what a server did not sync when its power is cut,
// and [Clock] is set forward and back.
package servers

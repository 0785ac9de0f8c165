// Package redislock keeps lines in Redis or Valkey: one server, Sentinel, or
// Cluster.
//
// Every claim is first come, first served between all processes. An uncontended
// lock is two requests in all, and a hand-over is the releaser's one request:
// Redis itself tells the next holder, on a channel of its own.
package redislock

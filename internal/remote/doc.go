// Package remote is what a leasehold service and the engine that calls it say to each
// other: the calls of package engine as JSON over HTTP. Both ends are released together.
// Programs in other languages use the paths of docs/service.md instead.
//
//	POST /v1/engine/join     JoinCall    JoinAnswer
//	POST /v1/engine/renew    RenewCall   BatchAnswer
//	POST /v1/engine/leave    LeaveCall   BatchAnswer
//	POST /v1/engine/queue    NameCall    QueueAnswer
//	POST /v1/engine/queues   NameCall    QueueAnswer, one a line; the last has End
//	POST /v1/engine/revoke   RevokeCall  Answer
//	POST /v1/engine/check    {}          Answer
//	POST /v1/engine/watch    WatchCall   Notification, one a line, until the call ends
//	POST /v1/engine/open     {}          Opening
//
// Every call is a POST, so that no name and no ID stands in a URL or in the log of a
// balancer. A status other than 200 means that the engine was not asked. Then the body is
// a [Problem], unless something between the two ends made the answer.
//
// Times are durations in nanoseconds. A granted TTL counts from the start of the call at
// the service, which is later than its start at the caller. So the caller may count it
// from its own start.
package remote

// Package redissonlock shares the locks of running Java programs that use Redisson.
package redissonlock

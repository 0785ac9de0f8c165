package redislock

import "testing"

func TestClockSteps(t *testing.T) { kit.ClockSteps(t) }

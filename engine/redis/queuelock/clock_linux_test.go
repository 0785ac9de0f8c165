package queuelock

import "testing"

func TestClockSteps(t *testing.T) { kit.ClockSteps(t) }

package plainlock

import "testing"

func TestATryThatArrivesLateIsVoid(t *testing.T) { t.Parallel(); kit.LateTry(t) }
func TestALeaveThatWasNotSent(t *testing.T)      { t.Parallel(); kit.LeaveThatWasNotSent(t) }
func TestEveryoneOfACrowdIsServed(t *testing.T)  { t.Parallel(); kit.Crowded(t, 8, 50) }

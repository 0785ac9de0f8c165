package redissonlock

import "testing"

func TestATryThatArrivesLateIsVoid(t *testing.T)          { t.Parallel(); locks.LateTry(t) }
func TestATryThatArrivesLateIsVoidReadWrite(t *testing.T) { t.Parallel(); readWrite.LateTry(t) }
func TestEveryoneOfACrowdIsServed(t *testing.T)           { t.Parallel(); locks.Crowded(t, 8, 50) }

package fleet

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the copies; their argument says what they do.
func TestMain(m *testing.M) {
	if !Inside() {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "begin":
		Print("early")
		Begin()
		Print("late")
	case "one fails":
		if Place() == 1 {
			fmt.Fprintln(os.Stderr, "no luck")
			os.Exit(3)
		}
		Begin()
	case "for ever":
		Begin()
		for {
			Print("still here")
		}
	}
}

func TestNobodyBeginsBeforeAllAreReady(t *testing.T) {
	early, late := 0, 0
	err := Run(t.Context(), 5, t.TempDir(), []string{"begin"}, func(_ int, text string) {
		switch text {
		case "early":
			early++
		case "late":
			late++
			if early < 5 {
				t.Errorf("one began when %d were ready", early)
			}
		default:
			t.Errorf("unexpected line %q", text)
		}
	})
	if err != nil || late != 5 {
		t.Fatalf("%d began, %v", late, err)
	}
}

func TestOneThatFailsDoesNotLeaveTheOthersWaiting(t *testing.T) {
	err := Run(t.Context(), 5, t.TempDir(), []string{"one fails"}, func(int, string) {})
	if err == nil || !strings.Contains(err.Error(), "process 1") || !strings.Contains(err.Error(), "no luck") {
		t.Fatalf("got %v", err)
	}
}

func TestTheEndOfTheContextEndsThemAllAndIsNoError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines := 0
	err := Run(ctx, 3, t.TempDir(), []string{"for ever"}, func(int, string) {
		if lines++; lines == 100 {
			cancel()
		}
	})
	if err != nil || lines < 100 {
		t.Fatalf("%d lines, %v", lines, err)
	}
}

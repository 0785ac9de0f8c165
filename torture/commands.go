package torture

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Commands is the operator's own fault. The shell runs strike and, when the fault has
// lasted, heal, unless that is empty. An engine may rest on what the fault breaks: breaks
// is history.Failover, Memory or Clock.
func Commands(strike, heal string, breaks ...string) Nemesis { return commands{strike, heal, breaks} }

type commands struct {
	strike, heal string
	breaks       []string
}

func (commands) Name() string { return "command" }

// commandBound is how long a command may take: a failover takes its time.
const commandBound = 5 * time.Minute

func (n commands) Strike(ctx context.Context, s *Strike) error {
	before := s.Trouble()
	s.Breaks(n.breaks...)
	s.Begin("", n.strike)
	err := shell(ctx, n.strike)
	if err == nil {
		s.Last(ctx)
	}
	if n.heal != "" {
		// Also after a strike that failed, which may have done half of it, and at the end
		// of the trial.
		if healing := shell(context.WithoutCancel(ctx), n.heal); err == nil {
			err = healing
		}
	}
	if n := s.Trouble() - before; n > 0 {
		s.Bit("%d calls failed, leases were lost, or clients found the engine away", n)
	}
	return err
}

func shell(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second // what it started may keep its output open
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", command, err, strings.TrimSpace(string(out[max(0, len(out)-500):])))
	}
	return nil
}

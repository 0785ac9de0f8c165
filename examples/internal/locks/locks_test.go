package locks

import (
	"strings"
	"testing"
)

// With such an engine each process would hold what another holds.
func TestAnEngineOfOneProcessIsRefused(t *testing.T) {
	t.Setenv("LEASEHOLD_ENGINE", "mem:")
	c, err := Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "excludes within one process") {
		if err == nil {
			c.Close()
		}
		t.Fatalf("got %v", err)
	}
}

package mysqllock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

func TestAFullServerCostsNoLease(t *testing.T) {
	rows.AFullServerCostsNoLease(t, servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--max-connections=12"}}).URL("", ""))
}

func TestHostileRowsHarmNoOtherName(t *testing.T) { rows.HostileRowsHarmNoOtherName(t) }

func TestWhatIsUsedMeanwhileIsNotSwept(t *testing.T) {
	rows.WhatIsUsedMeanwhileIsNotSwept(t, "IF l_seen < t AND n <> a_name THEN")
}

// A server that takes small statements only is given small ones, and one that cannot take
// a Join is refused.
func TestStatementsFitIntoAPacket(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--max-allowed-packet=16384"}})
	e := open(t, s.URL("", ""))
	var all []engine.Renewal
	for i := range 60 {
		c := testutil.Joins(t, e, testutil.Lasting(fmt.Sprint(strings.Repeat("long ", 80), i), time.Minute), engine.Held)
		all = append(all, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Minute})
	}
	if cs, err := e.Renew(within(t), all); err != nil || len(cs) != len(all) {
		t.Errorf("%d of %d are renewed: %v", len(cs), len(all), err)
	}
	waits := open(t, s.URL("", ""))
	heard := notifications(t, waits)
	var held []engine.Claim
	for _, r := range all {
		testutil.Joins(t, waits, testutil.Lasting(r.Name, time.Minute), engine.Waiting)
		held = append(held, engine.Claim{Name: r.Name, ID: r.ID})
	}
	if _, err := e.Leave(within(t), held); err != nil {
		t.Error(err)
	}
	for notified(t, heard).State != engine.Held { // which a look of the doorbell has found
	}
	if _, err := s.Query("SET GLOBAL max_allowed_packet = 4096"); err != nil {
		t.Fatal(err)
	}
	refused(t, s.URL("", ""), "max_allowed_packet is 4096")
}

package examine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "255.255.255": false, "": false, "vendor": false,
	} {
		if tooOld(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}

func TestTimeStamps(t *testing.T) {
	at := time.Date(2017, 7, 14, 2, 40, 0, 0, time.UTC)
	for value, want := range map[string]bool{
		"1500000000": true, "1500000000000": true, "1500000000000000": true, "1500000000000000000": true,
		"": false, "1": false, "150000000": false, "15000000000": false, "1500000000x": false, "-1500000000": false, "9223372036854775807": false,
	} {
		if got, ok := stamp(value); ok != want || ok && !got.Equal(at) {
			t.Errorf("%q: %v, %v", value, got.UTC(), ok)
		}
	}
}

func TestLocksOfRedisson(t *testing.T) {
	const client = "f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f"
	for _, c := range []struct {
		fields []string
		want   bool
	}{
		{[]string{client + ":41"}, true},
		{[]string{"mode", client + ":41", client + ":42"}, true},
		{[]string{"mode", client + ":41:write"}, true},
		{[]string{client + ":41", "name"}, false},
		{[]string{"mode"}, false},
		{nil, false},
		{[]string{client}, false},
	} {
		if lock(c.fields) != c.want {
			t.Errorf("%q: %v", c.fields, !c.want)
		}
	}
}

// found is what a part of an examination reports: severities and headings.
func found(s *Store, part func(*Store)) (all []string) {
	s.List = findings.New(engine.ExamineOptions{})
	part(s)
	s.List.Report(func(f engine.Finding) { all = append(all, fmt.Sprint(f.Severity, " ", f.What)) })
	return all
}

func TestDisks(t *testing.T) {
	const crash = " a crash of the machine forgets locks: a has appendfsync "
	for _, c := range []struct {
		delay        bool
		info, config map[string]string
		want         []string
	}{
		{false, map[string]string{"aof_enabled": "1"}, map[string]string{"appendfsync": "always"}, nil},
		{false, map[string]string{"aof_enabled": "1", "aof_last_write_status": "err"}, map[string]string{"appendfsync": "always"}, []string{"problem the server cannot write its file: a"}},
		{false, map[string]string{"aof_enabled": "1"}, map[string]string{"appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}, []string{"note" + crash + "always, no-appendfsync-on-rewrite yes"}},
		{false, map[string]string{"aof_enabled": "1"}, map[string]string{"appendfsync": "no"}, []string{"warning" + crash + "no, no-appendfsync-on-rewrite "}},
		{true, map[string]string{"aof_enabled": "1"}, map[string]string{"appendfsync": "no"}, []string{"note" + crash + "no, no-appendfsync-on-rewrite "}},
		{false, map[string]string{"aof_enabled": "1"}, nil, nil},
		{true, map[string]string{"aof_enabled": "0"}, nil, []string{"note a restart forgets locks: a has no append-only file"}},
	} {
		got := found(&Store{RestartDelay: c.delay}, func(s *Store) { s.disk("a", c.info, c.config) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %q", c.info, c.config, got)
		}
	}
}

func TestReplicas(t *testing.T) {
	online := func(lag string) string { return "ip=h,port=1,state=online,offset=1,lag=" + lag }
	of := func(n string) map[string]string {
		return map[string]string{"role": "master", "connected_slaves": n, "slave0": online("1")}
	}
	needs := func(n, lag string) map[string]string {
		return map[string]string{"min-replicas-to-write": n, "min-slaves-to-write": n, "min-replicas-max-lag": lag, "min-slaves-max-lag": lag}
	}
	safe := needs("1", "10")
	const (
		twice  = "note a failover may grant twice: a has "
		cutOff = "warning a primary that is cut off goes on granting: a has "
	)
	for _, c := range []struct {
		elected      bool
		info, config map[string]string
		want         []string
	}{
		{false, of("1"), needs("0", "10"), []string{cutOff + "min-replicas-to-write 0 and min-replicas-max-lag 10", twice + "1 replicas"}},
		{false, of("1"), needs("1", "0"), []string{cutOff + "min-replicas-to-write 1 and min-replicas-max-lag 0", twice + "1 replicas"}},
		{false, of("1"), map[string]string{"min-slaves-to-write": "1", "min-slaves-max-lag": "9"}, []string{twice + "1 replicas"}},
		{false, of("1"), nil, []string{twice + "1 replicas"}},
		{false, map[string]string{"role": "master", "connected_slaves": "0"}, nil, nil},
		{true, map[string]string{"role": "master", "connected_slaves": "0"}, nil, []string{twice + "0 replicas"}},
		{true, map[string]string{"role": "master", "connected_slaves": "1", "slave0": online("1")}, safe, []string{twice + "1 replicas"}},
		{true, map[string]string{"role": "master", "connected_slaves": "1", "slave0": online("9")}, safe, []string{"warning a replica lags: h:1 of a is online and 9s behind", twice + "1 replicas"}},
		{true, map[string]string{"role": "slave", "master_link_status": "up"}, nil, nil},
		{true, map[string]string{"role": "slave", "master_link_status": "down", "master_host": "h", "master_port": "1"}, nil, []string{"warning a replica lags: a has no link to its primary h:1"}},
	} {
		got := found(&Store{Elected: c.elected}, func(s *Store) { s.replication("a", c.info, c.config) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %q", c.info, c.config, got)
		}
	}
}

// TestWhatIsAdvisedFitsTheURL: ?replicas= and ?restart-delay= are of queuelock alone. With
// ?replicas= a primary that is cut off grants nothing.
func TestWhatIsAdvisedFitsTheURL(t *testing.T) {
	for _, c := range []struct {
		store Store
		want  []string // headings and parameters
	}{
		{Store{Queues: true}, []string{
			"a restart forgets locks ?restart-delay=", "a primary that is cut off goes on granting ?replicas=", "a failover may grant twice ?replicas=",
		}},
		{Store{}, []string{"a restart forgets locks", "a primary that is cut off goes on granting", "a failover may grant twice"}},
		{Store{Queues: true, Replicas: 1}, []string{"a restart forgets locks ?restart-delay="}},
	} {
		s := c.store
		s.List = findings.New(engine.ExamineOptions{})
		info := map[string]string{"role": "master", "connected_slaves": "1", "slave0": "state=online,lag=0"}
		config := map[string]string{"min-replicas-to-write": "0"}
		s.disk("a", info, config)
		s.replication("a", info, config)
		var got []string
		s.List.Report(func(f engine.Finding) {
			heading, _, _ := strings.Cut(f.What, ":")
			for _, param := range []string{"?replicas=", "?restart-delay="} {
				if strings.Contains(f.Do, param) {
					heading += " " + param
				}
			}
			got = append(got, heading)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.store, got)
		}
	}
}

// TestARightIsNamedToAUserWhoWasRefused, and not where the server was silent.
func TestARightIsNamedToAUserWhoWasRefused(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("i/o timeout"): "Try again, or ask the operator of the store.",
		engine.Refuse("NOPERM"):   "Grant the user of the URL +info, or use another user.",
	} {
		s := &Store{List: findings.New(engine.ExamineOptions{})}
		s.Unread("INFO", err, "+info")
		s.List.Report(func(f engine.Finding) {
			if f.Do != want {
				t.Errorf("%v: %s", err, f.Do)
			}
		})
	}
}

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsNotSyncedIsGoneWhenThePowerIsCut(t *testing.T) {
	d := PowerlessDisk(t)
	write := func(name string, sync bool) {
		f, err := os.Create(filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if !sync {
			return
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		write(fmt.Sprintf("kept%d", round), true)
		write(fmt.Sprintf("lost%d", round), false)
		if lost, err := d.CutPower(); err != nil || lost == 0 {
			t.Fatalf("%d bytes lost, %v", lost, err)
		}
		for i := range round + 1 {
			name := fmt.Sprintf("kept%d", i)
			if b, err := os.ReadFile(filepath.Join(d.dir, name)); err != nil || string(b) != name {
				t.Errorf("%q, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(d.dir, fmt.Sprintf("lost%d", i))); err == nil && len(b) > 0 {
				t.Errorf("%q was not synced, and is there", b)
			}
		}
	}
}

// A process of a server that does not end with its first one must not keep the disk.
func TestNothingRunsOnWithoutPower(t *testing.T) {
	d := PowerlessDisk(t)
	p, err := Start(Command{Program: "sh", Args: []string{"-c", "sleep 3600 & wait"}, Dir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	t.Cleanup(func() { // before the disk is closed, which a process that is left would keep mounted
		for _, pid := range all {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	if err := p.Until(startBound, func() error {
		all, err = workingIn(d.dir)
		if err == nil && len(all) < 2 {
			err = fmt.Errorf("only processes %v", all)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if lost, err := d.CutPower(); err != nil || lost == 0 {
		t.Errorf("%d bytes lost, %v", lost, err)
	}
}

// A Redis that syncs every write keeps what it has answered. One that never does has lost
// it, although its process could have been killed without that.
func TestARedisLosesWhatItDidNotSync(t *testing.T) {
	for policy, kept := range map[string]any{"always": "value", "no": nil} {
		t.Run(policy, func(t *testing.T) {
			d := PowerlessDisk(t)
			r := Redis(t, &RedisOptions{Durable: true, Disk: d, Args: []string{"--appendfsync", policy}})
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Do("SET", "key", "value"); err != nil {
				t.Fatal(err)
			}
			if err := r.RestartWith(func(string) error {
				_, err := d.CutPower()
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Do("GET", "key"); err != nil || got != kept {
				t.Errorf("after the power was cut: %v, %v", got, err)
			}
		})
	}
}

package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A pause of a machine stops what a child has started, too.
func TestHaltStopsWhatAChildHasStarted(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	started := make(chan string, 1)
	err = Launch(cmd, func() {
		lines := bufio.NewScanner(out)
		lines.Scan()
		started <- lines.Text()
		cmd.Wait()
		close(ended)
	})
	if err != nil {
		t.Fatal(err)
	}
	grandchild := <-started
	defer func() {
		exec.Command("kill", "-KILL", grandchild, fmt.Sprint(cmd.Process.Pid)).Run()
		<-ended
	}()
	for _, step := range []struct {
		do   func(*os.Process) error
		want string // what the system says of a process that is stopped, or is not
	}{{Halt, "T"}, {Proceed, "S"}} {
		if err := step.do(cmd.Process); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); state(t, grandchild) != step.want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the grandchild is in state %s, want %s", state(t, grandchild), step.want)
			}
		}
	}
}

func state(t *testing.T, pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

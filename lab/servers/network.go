package servers

import (
	"context"
	"fmt"
	"os/exec"
)

// Host is one machine of a [Network]: a network namespace with one address.
type Host struct {
	Name string
	Addr string // an IP address that the other hosts reach it by

	namespace *Process // lives in it, and keeps it alive
	port      string   // its port of the switch
	network   *Network
}

// Network is some hosts on one switch, all of them network namespaces: what runs
// there reaches nothing else, and nothing else reaches it. It lasts as long as its
// processes, which die with the test's.
type Network struct {
	Hosts []*Host

	hub *Process
}

// inside is the command that runs another in the network of a process.
func inside(p *Process) []string {
	return []string{"nsenter", "--net=" + path(p), "--"}
}

func path(p *Process) string { return fmt.Sprintf("/proc/%d/ns/net", p.PID()) }

// Cut pulls the plug of a host: packets from and to it are lost, and nobody is
// told. What runs on the host goes on, and reaches what else runs there.
func (h *Host) Cut() error { return h.network.set(h.port, "down") }

// Heal puts the plug back.
func (h *Host) Heal() error { return h.network.set(h.port, "up") }

func (n *Network) ip(where *Process, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	whole := append(append(inside(where), "ip"), args...)
	if out, err := exec.CommandContext(ctx, whole[0], whole[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

func (n *Network) set(port, to string) error { return n.ip(n.hub, "link", "set", port, to) }

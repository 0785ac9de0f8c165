package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Packets has the kernel lose the packets of a client, or of all clients: those that they
// send, those that they are sent, both, or one of three. There is no proxy, so it works with
// every engine that has a network, over TLS too. It needs what [Freeze] needs, and the right
// to load BPF programs. The kernel loses nothing more when this process has ended, however
// it ends.
func Packets() Nemesis { return &packets{} }

// Cut cuts one client off: the kernel loses every packet to it and from it. It needs what
// [Packets] needs.
func Cut() Nemesis { return &packets{cut: true} }

type packets struct {
	cut      bool // nothing but the first of the losses, and to one client
	groups   *groups
	lost     *ebpf.Map             // how many packets, in its only element
	programs map[int]*ebpf.Program // by the share of packets that they lose, in 256ths
}

func (n *packets) Name() string {
	if n.cut {
		return "cut"
	}
	return "packets"
}

// loss is one thing that the kernel does.
type loss struct {
	what  string
	ways  []ebpf.AttachType
	share int // of the packets, in 256ths
}

const (
	everyPacket = 256
	oneOfThree  = 85
)

func losses() []loss {
	sent, received := ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress
	return []loss{
		{"no packet arrives from there, nor there", []ebpf.AttachType{sent, received}, everyPacket},
		{"one way: no packet arrives from there", []ebpf.AttachType{sent}, everyPacket},
		{"one way: no packet arrives there", []ebpf.AttachType{received}, everyPacket},
		{"one of three packets is lost", []ebpf.AttachType{sent, received}, oneOfThree},
	}
}

// Prepare loads the programs, and attaches one to see that the kernel lets it.
func (n *packets) Prepare(_ context.Context, g *Ground) (err error) {
	if _, rest, found := strings.Cut(g.URL, "://"); !found || strings.HasPrefix(rest, "/") {
		return errors.New("the URL has no host: nothing passes a network")
	}
	if n.groups, err = g.inGroups(); err != nil {
		return err
	}
	n.lost, err = ebpf.NewMap(&ebpf.MapSpec{Name: "lost", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("the kernel loads no BPF program: %w: run it as root", err)
	}
	g.Cleanup(n.lost.Close)
	n.programs = map[int]*ebpf.Program{}
	for _, share := range []int{everyPacket, oneOfThree} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lose", Type: ebpf.CGroupSKB, License: "Dual MIT/GPL", Instructions: losing(share, n.lost)})
		if err != nil {
			return fmt.Errorf("the kernel loads no BPF program: %w: run it as root", err)
		}
		g.Cleanup(p.Close)
		n.programs[share] = p
	}
	l, err := n.attach(n.groups.dir, ebpf.AttachCGroupInetEgress, everyPacket)
	if err != nil {
		return err
	}
	return l.Close()
}

func (n *packets) attach(dir string, way ebpf.AttachType, share int) (link.Link, error) {
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: way, Program: n.programs[share]})
	if err != nil {
		return nil, fmt.Errorf("the kernel attaches no BPF program to %s: %w", dir, err)
	}
	return l, nil
}

// losing is a program that loses a share of the packets, and counts them.
func losing(share int, lost *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 255),
		asm.JGE.Imm(asm.R0, int32(share), "pass"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word), // the key of the element
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, lost.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"), // there is such an element, and the kernel wants to see that this was looked at
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"),
		asm.Return(),
	}
}

func (n *packets) Strike(ctx context.Context, s *Strike) (err error) {
	hit, f := n.choose(s)
	if len(hit) == 0 {
		return nil
	}
	before, err := n.count()
	if err != nil {
		return err
	}
	s.begin(hit, f.what)
	for _, way := range f.ways {
		l, failed := n.attach(n.groups.of(hit), way, f.share)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, l.Close()) }()
	}
	s.Last(ctx)
	after, err := n.count()
	if after > before {
		s.Bit("%d packets were lost", after-before)
	}
	return err
}

// choose is which clients a strike hits, and what it does to them.
func (n *packets) choose(s *Strike) ([]*client, loss) {
	all := losses()
	if !n.cut {
		return s.oneOrAll(), all[s.Rand.IntN(len(all))]
	}
	if c := s.victim(); c != nil {
		return []*client{c}, all[0]
	}
	return nil, loss{}
}

// count is how many packets were lost since the trial began.
func (n *packets) count() (lost uint64, err error) {
	err = n.lost.Lookup(uint32(0), &lost)
	return lost, err
}

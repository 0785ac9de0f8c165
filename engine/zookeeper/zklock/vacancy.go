package zklock

import "github.com/go-zookeeper/zk"

// vacancy is a queue that a claim of this session left empty.
//
// A list shows which claims stand before a new node. For a lone claim the node's number
// shows it too. The servers number the nodes of a queue by the count of all that were ever
// made there. A claim that was alone in its queue leaves its number behind. If the next
// node has the next number, no node was made in between, and those before it have gone.
//
// The count begins anew with a new node of the name. So a vacancy counts only if a watch on
// the node of the name stood before the claim went, while that node had a child and could
// not go. The servers send the event of a watch before any later answer on the same
// connection. That event ends the vacancy, and so does a new connection.
type vacancy struct {
	last  int64 // the number of the node that left it empty
	empty bool  // that node has gone: the servers may refuse to remove it
	sure  bool  // the node of the name is watched, and no other client came before
}

// maxVacancies bounds how many a session remembers, and with them the watches on nodes of
// names. The servers remove a container that nobody uses, which ends its vacancy.
const maxVacancies = 4096

// vacate notes that the node of a claim is about to be removed. The caller holds the mutex.
func (e *claimant) vacate(c *claim) {
	if !c.alone {
		return
	}
	if e.vacancies[c.Queue] == nil && !e.roomForVacancy() {
		return
	}
	c.vacancy = &vacancy{last: e.number(c.node()), sure: c.follows && e.stands(watch{c.Queue, false})}
	e.vacancies[c.Queue] = c.vacancy
}

// vacanciesLookedAt bounds how many are looked at for one that may make room: nearly all
// may be sure, and every call of this client needs the mutex.
const vacanciesLookedAt = 8

// roomForVacancy reports whether there is room for one more, perhaps in the place of one
// that spares no list yet. The caller holds the mutex.
func (e *claimant) roomForVacancy() bool {
	if len(e.vacancies) < maxVacancies {
		return true
	}
	looked := 0
	for queue, v := range e.vacancies { // which begins anywhere
		if !v.sure {
			delete(e.vacancies, queue)
			return true
		}
		if looked++; looked == vacanciesLookedAt {
			break
		}
	}
	return false
}

// number is that of a node of the layout.
func (e *claimant) number(node string) int64 {
	n, _ := e.layout.Parse(node) // which the layout made
	return n.Seq
}

// vacant is what is known of a queue, and whether a node with the next number would be alone.
func (e *claimant) vacant(queue string) (v *vacancy, sure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v = e.vacancies[queue]
	return v, v != nil && v.empty && v.sure
}

// occupy takes the vacancy in which the node of a claim was made, and reports whether the
// node of the name is to be watched: other clients leave the name to this one.
func (e *claimant) occupy(v *vacancy, c *claim, node string) (listen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.follows = v != nil && e.vacancies[c.Queue] == v && e.number(node) == v.last+1
	delete(e.vacancies, c.Queue)
	return c.follows && !e.stands(watch{c.Queue, false})
}

// alone is the list of a queue that has one node, made by that transaction.
func (e *claimant) alone(node string, made int64) *listed {
	there := &listed{children: []string{node}, stat: &zk.Stat{Pzxid: made}}
	there.line, there.strays = e.layout.Sort(there.children)
	return there
}

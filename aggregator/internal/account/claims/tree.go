// SPDX-License-Identifier: Apache-2.0

package claims

import "math"

// forest holds what hosts want, a tree for each band. A tree is ordered by
// wants per client, and each node knows the sums of what is below it: so one
// walk from the root finds where a level of water stands, and what is below
// and above. Sums are made of those below them every time, and never by adding
// to what was: there is nothing for rounding errors to pile up in, and what
// was huge and is gone leaves no trace.
//
// Trees are balanced by weight: no side holds more than three times of what
// the other does. So no history of claims makes a walk long. Nodes are in one
// slice and have no pointers, and a node that is not in use is in a list.
type forest struct {
	nodes []node // nodes[none] stands for no node, with zero sums
	free  int32  // head of the list of free nodes, by next
}

// node is what one host wants in one band.
type node struct {
	wants       float64
	sumWants    float64 // of the tree below, with this node
	sumClients  float64
	clients     uint32
	left, right int32
	rows        int32 // nodes of the tree below, with this one
	next        int32 // of the same host, or free
	band        uint8 // index of the band
}

// none is the index of no node.
const none int32 = 0

// tree is one tree of a forest.
type tree struct {
	*forest
	root int32
}

// sums are of some nodes.
type sums struct {
	wants, clients float64
}

func (n *node) own() Band { return Band{Clients: int64(n.clients), Wants: n.wants} }

// add makes a node that is in no tree yet.
func (f *forest) add() int32 {
	if i := f.free; i != none {
		f.free = f.nodes[i].next
		return i
	}
	if len(f.nodes) == 0 {
		f.nodes = make([]node, 1, 2)
	}
	if len(f.nodes) == cap(f.nodes) {
		// By an eighth, as nodes are many and hosts join seldom.
		n := len(f.nodes)
		f.nodes = append(append([]node(nil), make([]node, n+max(n/8, 1))...)[:0], f.nodes...)
	}
	f.nodes = append(f.nodes, node{})
	return int32(len(f.nodes) - 1)
}

// drop frees a node that is in no tree.
func (f *forest) drop(i int32) {
	f.nodes[i] = node{next: f.free}
	f.free = i
}

// perClient is what node i wants per client, by which the tree is ordered.
func (t tree) perClient(i int32) float64 {
	n := &t.nodes[i]
	return n.wants / float64(n.clients)
}

// before says whether node i, which wants so much per client, stands before node j.
func (t tree) before(perClient float64, i, j int32) bool {
	other := t.perClient(j)
	return perClient < other || perClient == other && i < j
}

// all sums up the tree.
func (t tree) all() sums {
	n := &t.nodes[t.root]
	return sums{n.sumWants, n.sumClients}
}

// cut sums up the nodes that want at most level per client, and those that want
// more. Each is a sum of its own, because a difference of two sums would lose
// small amounts beside large ones.
func (t tree) cut(level float64) (below, above sums) {
	for i := t.root; i != none; {
		n := &t.nodes[i]
		if t.perClient(i) <= level {
			below.add(n, &t.nodes[n.left])
			i = n.right
		} else {
			above.add(n, &t.nodes[n.right])
			i = n.left
		}
	}
	return below, above
}

// add adds node n, and all below side.
func (s *sums) add(n, side *node) {
	s.wants += n.wants + side.sumWants
	s.clients += float64(n.clients) + side.sumClients
}

// level is how much each client may have for all to have capacity: the sum of
// min(wants, level·clients) is capacity. All want more than that, maybe by no more than
// rounding: then there may be no level, and each may have what it wants.
func (t tree) level(capacity float64) float64 {
	below, clients := 0.0, 0.0 // clients above
	for i := t.root; i != none; {
		n := &t.nodes[i]
		left, right := &t.nodes[n.left], &t.nodes[n.right]
		to := below + left.sumWants + n.wants
		if to+t.perClient(i)*(clients+right.sumClients) <= capacity {
			below, i = to, n.right
		} else {
			clients += float64(n.clients) + right.sumClients
			i = n.left
		}
	}
	if clients == 0 {
		return math.Inf(1)
	}
	return max(capacity-below, 0) / clients
}

// insert puts node n into the tree and returns its new root.
func (t tree) insert(n int32) int32 { return t.put(t.root, n, t.perClient(n)) }

func (t tree) put(at, n int32, perClient float64) int32 {
	if at == none {
		t.nodes[n].left, t.nodes[n].right = none, none
		t.sum(n)
		return n
	}
	if t.before(perClient, n, at) {
		t.nodes[at].left = t.put(t.nodes[at].left, n, perClient)
	} else {
		t.nodes[at].right = t.put(t.nodes[at].right, n, perClient)
	}
	return t.balance(at)
}

// remove takes node n, which is in the tree as it was put, out of it and
// returns its new root.
func (t tree) remove(n int32) int32 { return t.take(t.root, n, t.perClient(n)) }

func (t tree) take(at, n int32, perClient float64) int32 {
	switch {
	case at == none:
		return none
	case at == n:
		return t.join(t.nodes[n].left, t.nodes[n].right)
	case t.before(perClient, n, at):
		t.nodes[at].left = t.take(t.nodes[at].left, n, perClient)
	default:
		t.nodes[at].right = t.take(t.nodes[at].right, n, perClient)
	}
	return t.balance(at)
}

// join makes one tree of two whose order does not overlap, whose sizes were in
// balance.
func (t tree) join(left, right int32) int32 {
	switch {
	case left == none:
		return right
	case right == none:
		return left
	}
	root := right
	for t.nodes[root].left != none {
		root = t.nodes[root].left
	}
	right = t.take(right, root, t.perClient(root))
	t.nodes[root].left, t.nodes[root].right = left, right
	return t.balance(root)
}

const (
	// heavy is how many times heavier one side may be than the other.
	// Heavy and double go together: with these two, and no others that are
	// whole, one rotation is always enough.
	heavy = 3

	// double is from how many times its outer side the inner side of the
	// heavier one is too heavy for a single rotation.
	double = 2
)

// balance restores the balance at a node of whose sides one has changed by one
// node, sums it up, and returns which node is there now.
func (t tree) balance(at int32) int32 {
	n := &t.nodes[at]
	left, right := t.weight(n.left), t.weight(n.right)
	switch {
	case right > heavy*left:
		r := &t.nodes[n.right]
		if t.weight(r.left) >= double*t.weight(r.right) {
			n.right = t.turnRight(n.right)
		}
		return t.turnLeft(at)
	case left > heavy*right:
		l := &t.nodes[n.left]
		if t.weight(l.right) >= double*t.weight(l.left) {
			n.left = t.turnLeft(n.left)
		}
		return t.turnRight(at)
	}
	t.sum(at)
	return at
}

// weight of a side: an empty one weighs something too, so that three times
// that is something.
func (t tree) weight(i int32) int32 { return t.nodes[i].rows + 1 }

func (t tree) turnLeft(at int32) int32 {
	up := t.nodes[at].right
	t.nodes[at].right = t.nodes[up].left
	t.nodes[up].left = at
	t.sum(at)
	t.sum(up)
	return up
}

func (t tree) turnRight(at int32) int32 {
	up := t.nodes[at].left
	t.nodes[at].left = t.nodes[up].right
	t.nodes[up].right = at
	t.sum(at)
	t.sum(up)
	return up
}

func (t tree) sum(i int32) {
	n := &t.nodes[i]
	left, right := &t.nodes[n.left], &t.nodes[n.right]
	n.sumWants = left.sumWants + n.wants + right.sumWants
	n.sumClients = left.sumClients + float64(n.clients) + right.sumClients
	n.rows = left.rows + 1 + right.rows
}

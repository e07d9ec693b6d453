// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// ringSeen is the ring that a daemon has from some time on.
type ringSeen struct {
	at      time.Time
	daemon  *process
	members string // equal for daemons with the same ring; "" once the daemon has ended
}

var (
	memberLost  = regexp.MustCompile(`msg="member does not answer.* member=(\S+)`)
	memberThere = regexp.MustCompile(`msg="member is there" member=(\S+)`)
	ringChanged = regexp.MustCompile(`^time=(\S+) .*msg="hosts changed" hosts=(\d+)`)
)

// ringsSeen are the rings that daemons with health checks have logged, in the order of time.
func ringsSeen(t *testing.T, daemons ...*process) (all []ringSeen) {
	t.Helper()
	for i, p := range daemons {
		there := make(map[string]bool)
		for line := range strings.Lines(p.logged()) {
			if m := memberLost.FindStringSubmatch(line); m != nil {
				delete(there, m[1])
			} else if m := memberThere.FindStringSubmatch(line); m != nil {
				there[m[1]] = true
			}
			m := ringChanged.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			at, err := time.Parse(time.RFC3339, m[1])
			if err != nil {
				t.Fatal(err)
			}
			members := strings.Join(slices.Sorted(maps.Keys(there)), " ")
			if m[2] != fmt.Sprint(len(there)) { // some must wait before they are on the ring again
				members = fmt.Sprintf("%s that daemon %d knows", m[2], i)
			}
			all = append(all, ringSeen{at, p, members})
		}
	}
	return all
}

// owners are the rings that the daemons of a cluster have at a time. Each ring says which
// daemon owns a key, so while rings differ a key may have several owners.
type owners struct {
	now  map[*process]string
	made map[string]map[*process]int // how often each daemon made a change, by the change
	most map[string]int
}

// rings is how many different ones there are.
func (o *owners) rings() int {
	different := make(map[string]bool)
	for _, members := range o.now {
		different[members] = true
	}
	return len(different)
}

// change notes the next ring of a daemon. It reports whether keys may change owners, as
// they do when the first daemon makes a change, and not when the others follow.
func (o *owners) change(s ringSeen) bool {
	if o.now == nil {
		o.now, o.made, o.most = make(map[*process]string), make(map[string]map[*process]int), make(map[string]int)
	}
	change := o.now[s.daemon] + " to " + s.members
	if s.members == "" {
		delete(o.now, s.daemon)
		return false
	}
	o.now[s.daemon] = s.members
	if o.made[change] == nil {
		o.made[change] = make(map[*process]int)
	}
	if o.made[change][s.daemon]++; o.made[change][s.daemon] <= o.most[change] {
		return false
	}
	o.most[change]++
	return true
}

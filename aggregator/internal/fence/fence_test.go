// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// among tells who is one of hosts.
func among(hosts ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(hosts, name) }
}

func TestWhoWasAMemberLatelyMayHandOver(t *testing.T) {
	var f Fence
	admits := func(at time.Duration, host string, want bool) {
		t.Helper()
		if f.Admits(at, host) != want {
			t.Errorf("at %v, %s may hand over: %v", at, host, !want)
		}
	}
	const s = time.Second
	admits(0, "anyone", true)
	f.Move(0, nil)
	admits(0, "anyone", true)

	f.Move(s, among("a", "b"))
	admits(s, "stranger", false)
	f.Move(100*s, among("b"))
	admits(101*s, "b", true)
	admits(100*s+formerFor, "a", true)
	admits(101*s+formerFor, "a", false)

	f.Move(101*s, among("c"))
	admits(101*s+formerFor, "b", true)
	admits(101*s+formerFor, "a", false)
	for i := range 100 {
		f.Move((200+time.Duration(i))*s, among(fmt.Sprint(i)))
	}
	admits(299*s, "99", true)
	admits(299*s, "98", true)
	if n := len(f.known()); n > maxFormer+1 {
		t.Errorf("%d rings are remembered", n)
	}
}

// A cluster of 60 is made one of 10: 50 hosts leave within seconds of each other, and each change of
// the ring has one host fewer. The first one that left may still hand its keys over.
func TestHostsThatLeaveTogetherMayAllHandOver(t *testing.T) {
	hosts := make([]string, 60)
	for i := range hosts {
		hosts[i] = fmt.Sprint("host-", i)
	}
	var f Fence
	now := time.Hour
	f.Move(0, among(hosts...))
	for left := 1; left <= 50; left++ {
		now += 20 * time.Millisecond
		f.Move(now, among(hosts[left:]...))
	}
	for _, host := range hosts {
		if !f.Admits(now+2*time.Second, host) {
			t.Errorf("%s may not hand over what it owned a moment ago", host)
		}
	}
	if f.Admits(now, "stranger") {
		t.Error("a stranger may hand over")
	}
}

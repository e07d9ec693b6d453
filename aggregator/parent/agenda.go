// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"container/heap"
	"time"
)

// agenda is when to look at each of some leases: a heap, the first one first. A Client guards it.
type agenda []entry

type entry struct {
	at time.Duration
	*Lease
}

// add has l looked at at that time, or earlier if it is in a already.
func (a *agenda) add(l *Lease, at time.Duration) {
	if l.place == 0 {
		heap.Push(a, entry{at, l})
	} else if i := l.place - 1; at < (*a)[i].at {
		(*a)[i].at = at
		heap.Fix(a, i)
	}
}

// remove takes l off the agenda.
func (a *agenda) remove(l *Lease) {
	if l.place > 0 {
		heap.Remove(a, l.place-1)
	}
}

// take removes the leases to look at by now, and returns them.
func (a *agenda) take(now time.Duration) (due []*Lease) {
	for len(*a) > 0 && (*a)[0].at <= now {
		due = append(due, heap.Pop(a).(entry).Lease) //nolint:errcheck // nothing else is there
	}
	return due
}

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}

func (a *agenda) Push(x any) {
	of, _ := x.(entry)
	*a = append(*a, of)
	of.place = len(*a)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	of := (*a)[last]
	of.place = 0
	(*a)[last] = entry{}
	*a = (*a)[:last]
	return of
}

// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"container/heap"
	"time"
)

// agenda is when to look at each of some leases, the first one first. A Client guards it.
type agenda struct{ entries entries }

// entries are a heap.
type entries []entry

type entry struct {
	at time.Duration
	*Lease
}

// add has l looked at at that time, or earlier if it is in a already.
func (a *agenda) add(l *Lease, at time.Duration) {
	if l.place == 0 {
		heap.Push(&a.entries, entry{at, l})
	} else if i := l.place - 1; at < a.entries[i].at {
		a.entries[i].at = at
		heap.Fix(&a.entries, i)
	}
}

// remove takes l off the agenda.
func (a *agenda) remove(l *Lease) {
	if l.place > 0 {
		heap.Remove(&a.entries, l.place-1)
	}
}

// take removes the leases to look at by now, and returns them.
func (a *agenda) take(now time.Duration) (due []*Lease) {
	for len(a.entries) > 0 && a.entries[0].at <= now {
		due = append(due, a.entries[0].Lease)
		a.remove(a.entries[0].Lease)
	}
	return due
}

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, j int) bool { return e[i].at < e[j].at }

func (e entries) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].place, e[j].place = i+1, j+1
}

func (e *entries) Push(x any) {
	of, _ := x.(entry)
	*e = append(*e, of)
	of.place = len(*e)
}

func (e *entries) Pop() any {
	last := len(*e) - 1
	of := (*e)[last]
	of.place = 0
	(*e)[last] = entry{}
	*e = (*e)[:last]
	return of
}

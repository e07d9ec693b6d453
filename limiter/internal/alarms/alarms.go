// SPDX-License-Identifier: Apache-2.0

// Package alarms keeps items until something is to be done about them.
//
//	a := alarms.New[*Subject]()
//	a.Add(subject, until)
//	subjects := a.Take(now) // once a.Due() has come
//
// Take costs time for each item that there is: the package is for few items, or for many that
// are due together. It does not know what is to be done.
package alarms

import (
	"slices"

	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/stage"
)

// Alarms are items and when each is due. Use New. A lock of the caller's guards them.
type Alarms[T any] struct {
	due stage.Instant // of the first; lanes.Never if there is none
	set []alarm[T]
}

type alarm[T any] struct {
	item T
	at   stage.Instant
}

// New returns Alarms without items.
func New[T any]() Alarms[T] { return Alarms[T]{due: lanes.Never} }

// Due is when Take has something to take; lanes.Never if there is no item.
func (a *Alarms[T]) Due() stage.Instant { return a.due }

// Add adds item, due at at, and reports whether Due has changed.
func (a *Alarms[T]) Add(item T, at stage.Instant) (sooner bool) {
	a.set = append(a.set, alarm[T]{item, at})
	sooner = at < a.due
	a.due = min(a.due, at)
	return sooner
}

// Take removes the items that are due at now, and returns them in the order of Add.
func (a *Alarms[T]) Take(now stage.Instant) (out []T) {
	if now < a.due {
		return nil
	}
	a.due = lanes.Never
	a.set = slices.DeleteFunc(a.set, func(x alarm[T]) bool {
		if x.at > now {
			a.due = min(a.due, x.at)
			return false
		}
		out = append(out, x.item)
		return true
	})
	return out
}

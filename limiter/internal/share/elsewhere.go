// SPDX-License-Identifier: Apache-2.0

package share

import "sync/atomic"

// Elsewhere counts the cost that a bucket elsewhere allowed, and that a Rate has counted
// as rejected: see Part.Admitted. Admit and Admitted are safe for concurrent use.
type Elsewhere struct {
	admitted atomic.Int64
	taken    int64 // of admitted, by Take
}

// Admit counts n.
func (e *Elsewhere) Admit(n int64) { e.admitted.Add(n) }

// Admitted is what was counted ever; 0 if e is nil.
func (e *Elsewhere) Admitted() int64 {
	if e == nil {
		return 0
	}
	return e.admitted.Load()
}

// Take is what Admitted has grown by since the last call.
func (e *Elsewhere) Take() (n int64) {
	if e != nil {
		now := e.admitted.Load()
		n, e.taken = now-e.taken, now
	}
	return n
}

// Elsewhere is what LeaveElsewhere was given; nil before that.
func (r *rare) Elsewhere() *Elsewhere { return r.has().left }

// Admitted implements Part.
func (r *rare) Admitted() int64 { return r.Elsewhere().Admitted() }

// TakeElsewhere implements Part.
func (r *rare) TakeElsewhere(*Asked) (admitted int64) { return r.Elsewhere().Take() }

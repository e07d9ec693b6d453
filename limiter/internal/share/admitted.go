// SPDX-License-Identifier: Apache-2.0

package share

import "sync/atomic"

// AdmittedRemote counts the cost that a remote bucket admitted and that a Rate has counted
// as rejected: see Part.Admitted. Admit and Admitted are safe for concurrent use.
type AdmittedRemote struct {
	admitted atomic.Int64
	taken    int64 // of admitted, by Take
}

// Admit counts n.
func (a *AdmittedRemote) Admit(n int64) { a.admitted.Add(n) }

// Admitted is the total so far; 0 if a is nil.
func (a *AdmittedRemote) Admitted() int64 {
	if a == nil {
		return 0
	}
	return a.admitted.Load()
}

// Take is how much Admitted has grown since the last call.
func (a *AdmittedRemote) Take() (n int64) {
	if a != nil {
		now := a.admitted.Load()
		n, a.taken = now-a.taken, now
	}
	return n
}

// AdmittedRemote is what LeaveRemote was called with; nil before that.
func (x *extras) AdmittedRemote() *AdmittedRemote { return x.extra().remote }

// Admitted implements Part.
func (x *extras) Admitted() int64 { return x.AdmittedRemote().Admitted() }

// TakeAdmitted implements Part.
func (x *extras) TakeAdmitted(*Asked) (admitted int64) { return x.AdmittedRemote().Take() }

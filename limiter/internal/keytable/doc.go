// SPDX-License-Identifier: Apache-2.0

// Package keytable is a concurrent map from keys to state. Readers take no
// lock and write nothing, also while the table grows. Writers lock the part
// of the table that their key is in.
//
//	t := keytable.New[state]()
//	s := t.Get("key") // nil if it is not there
//	if s == nil {
//		p := t.Lock("key")
//		if s = p.Get(); s == nil { // no other caller was faster
//			s = new(state)
//			p.Put(s)
//		}
//		p.Unlock()
//	}
//
// Out of scope: the package knows nothing of the state, does not count keys
// per rule and does not list them.
package keytable

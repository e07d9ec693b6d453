// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/headgate/headgate/algorithm"
)

// patient answers no host sooner than an interval after its last answer: what
// a Stateful algorithm is worth without early reports. What hosts say
// meanwhile is put together into one report.
type patient struct{ algorithm.Stateful }

// NewKey implements algorithm.Stateful.
func (p patient) NewKey(interval time.Duration) algorithm.Key {
	return &patientKey{Key: p.Stateful.NewKey(interval), interval: interval, hosts: make(map[uint32]*patientHost)}
}

// patientKey is one key.
type patientKey struct {
	algorithm.Key

	interval time.Duration
	hosts    map[uint32]*patientHost
}

// patientHost is what one host has said since its last answer.
type patientHost struct {
	answered time.Duration
	said     algorithm.Report
}

// Report implements algorithm.Key.
func (k *patientKey) Report(now time.Duration, limit algorithm.Limit, host uint32, r algorithm.Report) (algorithm.Grant, bool) {
	h := k.hosts[host]
	if h != nil {
		h.said.Allowed += r.Allowed
		h.said.Rejected += r.Rejected
		h.said.Elapsed += r.Elapsed
		h.said.Wants, h.said.Has, h.said.Cost = r.Wants, r.Has, max(h.said.Cost, r.Cost)
		if now < h.answered+k.interval {
			return algorithm.Grant{}, false
		}
		r = h.said
	}
	grant, ok := k.Key.Report(now, limit, host, r)
	switch {
	case ok:
		k.hosts[host] = &patientHost{answered: now}
	case h != nil: // it has been heard, though not answered
		h.said = algorithm.Report{}
	}
	return grant, ok
}

// Expire implements algorithm.Key.
func (k *patientKey) Expire(now time.Duration, gone func(host uint32)) {
	k.Key.Expire(now, func(host uint32) {
		delete(k.hosts, host)
		gone(host)
	})
}

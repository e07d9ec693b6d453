// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/exact"
)

// Owned is what the owner of a key knows of it under one algorithm. Amounts are in tokens, or
// in slots where the rule limits those.
type Owned struct {
	Algorithm string `json:"algorithm"`

	// Pool is the tokens in the key's pool, negative in debt, and Lent those that hosts hold,
	// as far as they have reported; nil for algorithms without a pool.
	Pool *float64 `json:"pool,omitempty"`
	Lent *float64 `json:"lent,omitempty"`

	// Over is by how much more than limit·t + burst hosts have been allowed and have not
	// yet made up for, as far as they have reported. OverBound is the most that this can be
	// while all hosts reach the owner; nil if the algorithm states no bound.
	Over      float64  `json:"over"`
	OverBound *float64 `json:"over_bound,omitempty"`

	// Hosts are those that the owner knows, sorted by name.
	Hosts []AtOwner `json:"hosts"`
}

// AtOwner is what the owner of a key knows of one host.
type AtOwner struct {
	Host string `json:"host"`

	// Wants is the host's demand, in tokens/s or slots, Weight the part of the limit that
	// it holds as a rate or an amount, and Lent the tokens that it holds beside that.
	Wants  float64 `json:"wants"`
	Weight float64 `json:"weight"`
	Lent   float64 `json:"lent"`

	// Silent is how long ago the host reported, and Lease how long its lease still lasts,
	// in seconds; nil if the algorithm does not keep that.
	Silent *float64 `json:"silent_seconds,omitempty"`
	Lease  *float64 `json:"lease_seconds,omitempty"`
}

// together puts what the owner and the edges say into e's hosts: what the owner knows of each,
// and the programs.
func (e *Explanation) together(rule *dynamicconfig.Rule) {
	programs := make(map[string]Host)
	for i := range e.Hosts {
		h := &e.Hosts[i]
		for _, p := range h.Programs {
			p.Program = true
			if known, ok := programs[p.Host]; !ok || p.Answered != nil && (known.Answered == nil || p.Answered.After(*known.Answered)) {
				programs[p.Host] = p
			}
		}
		if h.Host == e.Owner {
			e.Owned = h.Owned
		}
		h.Programs, h.Owned = nil, nil
	}
	atOwner := make(map[string]*AtOwner)
	for i := range e.Owned {
		o := &e.Owned[i]
		for j := range o.Hosts {
			// Under a migration there are two. That of the algorithm that answers counts.
			if _, known := atOwner[o.Hosts[j].Host]; !known || rule != nil && o.Algorithm == rule.Algorithms()[max(rule.Answering(), 0)] {
				atOwner[o.Hosts[j].Host] = &o.Hosts[j]
			}
		}
	}
	for i := range e.Hosts {
		h := &e.Hosts[i]
		h.AtOwner = atOwner[h.Host]
		delete(atOwner, h.Host)
		delete(programs, h.Host) // no program has the name of a member
	}
	for name, known := range atOwner {
		p := programs[name]
		p.Host, p.Program, p.AtOwner = name, true, known
		programs[name] = p
	}
	for _, p := range programs {
		e.Hosts = append(e.Hosts, p)
	}
	slices.SortFunc(e.Hosts, func(a, b Host) int {
		if a.Program != b.Program {
			return count(a.Program) - count(b.Program)
		}
		return strings.Compare(a.Host, b.Host)
	})
}

// askedOwner adds what the owner's bucket has to hosts whose events all ask the owner.
func (e *Explanation) askedOwner(rule *dynamicconfig.Rule) {
	for _, o := range e.Owned {
		if o.Algorithm != exact.Name || o.Pool == nil {
			continue
		}
		for i := range e.Hosts {
			if k := &e.Hosts[i].Key; k.InUse && k.Algorithm == exact.Name && !k.Fallback && !rule.Bypassed() {
				k.ownersBucket(rule, *o.Pool)
			}
		}
	}
}

// Waits reports whether a program has not answered yet that the owner knows.
func (e *Explanation) Waits() bool {
	return slices.ContainsFunc(e.Hosts, func(h Host) bool { return h.Program && h.Answered == nil })
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// asksOwners reports whether any rule of s has owners asked.
func asksOwners(s *dynamicconfig.Snapshot) bool {
	return slices.ContainsFunc(s.Algorithms(), isAsked)
}

// isAsked reports whether hosts may ask the owners of keys under an algorithm.
func isAsked(name string) bool { return name == algorithm.NameExact || name == algorithm.NameAuto }

// asksFor reports whether a host may ask the owner of a key under rule.
func asksFor(rule *dynamicconfig.Rule) bool {
	if m := rule.Migration; m != nil {
		return isAsked(m.From) || isAsked(m.To)
	}
	return isAsked(rule.Algorithm)
}

// askedFor tells of each key whether hosts under s may ask its owner; nil: of none.
func (f *Fleet) askedFor(s *dynamicconfig.Snapshot) []bool {
	if !asksOwners(s) {
		return nil
	}
	all, ok := f.asking[s]
	if !ok {
		all = make([]bool, len(f.keys))
		for i, k := range f.keys {
			rule, ok := s.Match(k)
			all[i] = ok && asksFor(rule)
		}
		f.asking[s] = all
	}
	return all
}

// remotes are those whom a host's limiters ask.
func (f *Fleet) remotes(h *Host) []limiter.Option {
	of, taker := h.Current(), f.newTaker(h)
	all := []limiter.Option{
		limiter.WithRemote(algorithm.NameExact, exact.New(taker)),
		limiter.WithRemote(algorithm.NameAuto, exact.NewAuto(taker)),
		driver.WithBackground(func(job func()) { f.runs(of, 0, job) }),
	}
	return append(all, f.elsewhere...)
}

// moveBuckets tells other owners what is left in buckets that were h's to know, and
// does not wait for answers: an owner that does not hear it learns from the hosts.
func (f *Fleet) moveBuckets(h *Host, rows []usage.Take, owner func(key string) string) {
	byOwner := make(map[int][]usage.Take)
	var owners []int // in the order of rows
	for _, row := range rows {
		to, ok := f.ByName[owner(row.Key)]
		if !ok {
			continue
		}
		if byOwner[to] == nil {
			owners = append(owners, to)
		}
		byOwner[to] = append(byOwner[to], row)
	}
	for _, to := range owners {
		payload, err := usage.EncodeTakes(&usage.Takes{Rows: byOwner[to]})
		if err != nil {
			f.Fail(fmt.Errorf("%s moves buckets: %w", h.Name, err))
			return
		}
		f.ask(h, to, &asking{from: h.Current(), deadline: f.Now + ask.DefaultTimeout}, payload)
	}
}

// movesBuckets has h tell the owners by the ring that it has just seen.
func (f *Fleet) movesBuckets(h *Host) {
	if h.aggregator == nil || !slices.ContainsFunc(f.configs, asksOwners) {
		return
	}
	rows := h.aggregator.Buckets(f.Now-h.born, func(key string) bool { return h.ring.Owner(key) != h.Name })
	f.moveBuckets(h, rows, h.ring.Owner)
}

// handBuckets has h, which leaves, tell those who own its keys then.
func (f *Fleet) handBuckets(h *Host) {
	if slices.ContainsFunc(f.configs, asksOwners) {
		f.moveBuckets(h, h.aggregator.HandoverBuckets(f.Now-h.born), h.ring.Without(h.Name).Owner)
	}
}

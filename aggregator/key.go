// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// key is what the aggregator knows of one key under one algorithm.
type key struct {
	text     string
	settings *settings // under which rule was found
	rule     *dynamicconfig.Rule
	state    algorithm.Key // of a Stateful algorithm, instead of what follows
	ledger   ledger
	round    *round // of an algorithm that looks at all hosts at once

	_ [16]byte // to whole cache lines: neighbours are other processors' keys
}

// adopt brings k under s, unless it is under later ones. It returns false if
// no rule matches.
func (k *key) adopt(s *settings) bool {
	if s.number <= k.settings.number {
		return k.rule != nil
	}
	if k.settings.average != s.average && k.state == nil {
		k.ledger.restage()
	}
	k.rule, _ = s.snapshot.Match(k.text)
	k.settings, k.round = s, nil
	return k.rule != nil
}

// expire forgets what is too old at now.
func (k *key) expire(now time.Duration, gone func(host uint32)) {
	if k.state != nil {
		k.state.Expire(now, gone)
		return
	}
	k.ledger.advance(now, k.settings.stages, gone)
}

func (k *key) hosts() int {
	if k.state != nil {
		return k.state.Hosts()
	}
	return k.ledger.len()
}

func (k *key) knows(host uint32) bool {
	if k.state != nil {
		return k.state.Knows(host)
	}
	return k.ledger.knows(host)
}

func (k *key) limit() algorithm.Limit {
	return algorithm.Limit{Rate: float64(k.rule.Limit), Burst: k.rule.Burst}
}

// demand is row i of usage as rates. Reports that follow each other closely
// say little: less than a second counts as one.
func demand(u *rpc.Usage, i int) algorithm.Demand {
	seconds := max(float64(u.Elapsed[i])*1e-9, 1)
	return algorithm.Demand{Allowed: float64(u.Allowed[i]) / seconds, Rejected: float64(u.Rejected[i]) / seconds}
}

// report is row i of usage for a Stateful algorithm.
func report(u *rpc.Usage, i int) algorithm.Report {
	r := algorithm.Report{
		Allowed:  float64(u.Allowed[i]),
		Rejected: float64(u.Rejected[i]),
		Elapsed:  u.Elapsed[i],
		Has:      u.Weight[i],
		Cost:     1,
	}
	if u.Cost != nil {
		r.Cost = max(u.Cost[i], 1)
	}
	if u.Wants != nil {
		r.Wants = u.Wants[i]
	} else {
		r.Wants = demand(u, i).Total()
	}
	return r
}

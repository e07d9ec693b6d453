// SPDX-License-Identifier: Apache-2.0

package algorithm

import "time"

// Weigh divides capacity, in events/s, among the hosts that use a key: it fills in
// parts, which is as long as demands and zero, and whose sum is at most capacity.
// A host that gets more than it wants, and a little on top, leaves the rest to the
// pool.
//
// A Weigh is a pure function. It says only how to divide: the account that it
// runs on adds bursts, debt, leases and early reports. See Pool.
//
// Demands are in no particular order. All want something, there is at least one,
// and capacity is above 0.
type Weigh func(capacity float64, demands []Demand, parts []float64)

// Demand is what one host wants of a key.
type Demand struct {
	// Host is its name, and Labels is what membership says about it, such as its
	// zone and version. A report does not choose them.
	Host   string
	Labels Labels

	// Wants is its demand, in events/s; above 0.
	Wants float64

	// Has is the part of the limit that it has until its next report, in [0, 1].
	Has float64
}

// Labels are what membership says about a host. They are not to be changed.
type Labels map[string]string

// Member is a host, as membership has it.
type Member struct {
	Name   string
	Labels Labels
}

// Cluster is what a Key knows of its surroundings.
type Cluster struct {
	// Interval is how often hosts report; > 0.
	Interval time.Duration

	// Member is who host is. Nil: hosts have no names and no labels.
	Member func(host uint32) Member
}

// Pool is the algorithm that divides as weigh says, on the account of Elastic: one
// pool for each key, of which hosts hold rates and tokens for bursts. It has
// Elastic's bound, whatever weigh says, and takes its parameters.
//
//	err := registry.Register("half-to-the-biggest", algorithm.Pool(weigh))
func Pool(weigh Weigh) Algorithm { return pool{weigh: weigh} }

// pool is Elastic with parts that weigh makes.
type pool struct {
	Elastic
	weigh Weigh
}

var (
	_ Stateful     = pool{}
	_ Configurable = pool{}
)

// NewKey implements Stateful.
func (p pool) NewKey(c Cluster) Key {
	key, _ := p.Elastic.NewKey(c).(*elasticKey)
	return &weighedKey{elasticKey: *key, weigh: p.weigh, member: c.Member}
}

// With implements Configurable, as Elastic does.
func (p pool) With(parameters map[string]string) (Algorithm, error) {
	e, err := p.with(parameters)
	if err != nil {
		return nil, err
	}
	return pool{e, p.weigh}, nil
}

// Share implements Algorithm, by demand alone.
func (p pool) Share(limit Limit, rates []Rates, grants []Grant) {
	demands, parts := make([]Demand, len(rates)), make([]float64, len(rates))
	for i, r := range rates {
		demands[i].Wants = r.Total()
	}
	p.weigh(limit.Rate, demands, parts)
	for i, part := range parts {
		weight := ratio(part, limit.Rate)
		grants[i] = Grant{Weight: weight, Burst: weight * limit.Burst}
	}
}

// weighedKey is an elastic key whose rates are the parts that weigh makes.
type weighedKey struct {
	elasticKey

	weigh  Weigh
	member func(host uint32) Member
	ends   time.Duration      // until when parts are good
	parts  map[uint32]float64 // of the limit, by host
}

// parted is into how many pieces an interval is divided, in each of which all hosts
// are weighed once: so a report costs no more when there are more hosts.
const parted = 8

// fewHosts is how many hosts may be weighed for the sake of one more.
const fewHosts = 64

// Report implements Key.
func (k *weighedKey) Report(now time.Duration, limit Limit, host uint32, r *Report) (Grant, bool) {
	k.part = 0
	if r.Wants > 0 && limit.Rate > 0 {
		if now >= k.ends || k.lacks(host) {
			k.pass(now, limit, host, r)
		}
		k.part = k.parts[host]
	}
	part := k.part
	if !(part >= 0 && part <= 1) {
		k.part = 0
	}
	g, ok := k.elasticKey.Report(now, limit, host, r)
	if k.part != part {
		g.Weight = part // the decider says whose defect that is
	}
	return g, ok
}

// lacks reports whether to weigh anew for the sake of host. Beyond a few hosts that
// takes a quarter more of them.
func (k *weighedKey) lacks(host uint32) bool {
	if _, ok := k.parts[host]; ok {
		return false
	}
	had := len(k.parts)
	return had < fewHosts || int(k.users) > had+had/4
}

// pass weighs all hosts, and the one that says r now.
func (k *weighedKey) pass(now time.Duration, limit Limit, says uint32, r *Report) {
	n := int(k.users) + 1
	hosts, demands := make([]uint32, 0, n), make([]Demand, 0, n)
	add := func(host uint32, wants, has float64) {
		d := Demand{Wants: wants, Has: has}
		if k.member != nil {
			m := k.member(host)
			d.Host, d.Labels = m.Name, m.Labels
		}
		hosts, demands = append(hosts, host), append(demands, d)
	}
	for i, row := range k.rows.All {
		if host := k.rows.Host(i); row.wants > 0 && host != says {
			add(host, float64(row.wants), row.weight)
		}
	}
	add(says, float64(float32(reasonable(r.Wants, limit))), r.Has) // rounded as in a row
	parts := make([]float64, len(hosts))
	k.weigh(limit.Rate, demands, parts)
	all := 0.0
	for _, part := range parts {
		all += part
	}
	k.ends = now + k.interval/parted
	k.parts = make(map[uint32]float64, len(hosts))
	for i, host := range hosts {
		k.parts[host] = parts[i] / max(all, limit.Rate) // in proportion, if they are too much
	}
}

// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"iter"
	"math"
	"slices"
	"strconv"

	"golang.org/x/time/rate"
)

// Fields are r's fields as a config file writes them, by their names there,
// in an order for people: the value of each is a string ("100/s", "30s"), a
// bool, an int64, a float64 or a map[string]string. r is of a Snapshot, so
// that defaults are among them. Fields that mean nothing for r (a burst of
// slots, a safe capacity beside another fallback) are left out. An Override that holds is
// among them as "override", which no file has.
func (r *Rule) Fields() iter.Seq2[string, any] {
	leased := slices.ContainsFunc(algorithmsOf(r), func(a named) bool { return leases(a.algorithm) })
	return func(yield func(string, any) bool) {
		_ = yield("key", r.Key) &&
			yield("limit", r.amount(r.Limit)) &&
			(r.Burst == 0 || yield("burst", r.Burst)) &&
			(r.MaxWait == 0 || yield("max_wait", duration(max(r.MaxWait, 0)))) &&
			(r.MaxDebt == 0 || yield("max_debt", duration(max(r.MaxDebt, 0)))) &&
			(r.MaxCost == 0 || yield("max_cost", r.MaxCost)) &&
			(r.Enforce == 0 || yield("enforce", percentOf(r.Enforced()))) &&
			r.yieldAlgorithm(yield) &&
			(len(r.Parameters) == 0 || yield("parameters", cloned(r.Parameters))) &&
			(r.AskTimeout == 0 || yield("ask_timeout", duration(r.AskTimeout))) &&
			yield("fallback", r.Fallback.String()) &&
			(r.SafeCapacity == 0 || yield("safe_capacity", r.amount(r.SafeCapacity))) &&
			yield("lease", duration(r.Lease)) &&
			yield("refresh", duration(r.Refresh)) &&
			yield("learning", duration(max(r.Learning, 0))) &&
			yield("recalculate", duration(max(r.Recalculate, 0))) &&
			(!leased || yield("overcommit", percentOf(r.Overcommit))) &&
			yield("priority", r.Priority) &&
			(len(r.Priorities) == 0 || yield("priorities", byBand(r.Priorities))) &&
			(!r.OneBand || yield("one_band", true)) &&
			yield("parent", r.Parent) &&
			yield("idle_after", duration(r.IdleAfter)) &&
			yield("max_keys", int64(r.MaxKeys)) &&
			yield("shared", r.Shared) &&
			(!r.Private || yield("private", true)) &&
			(r.Description == "" || yield("description", r.Description)) &&
			(r.Override == nil || yield("override", r.Override.String()))
	}
}

func (r *Rule) yieldAlgorithm(yield func(string, any) bool) bool {
	if m := r.Migration; m != nil {
		return yield("migrate", map[string]string{"from": m.From, "to": m.To, "mode": m.Mode.String()})
	}
	return yield("algorithm", r.Algorithm)
}

// Amount is r's limit as people write it, such as "100/s", "5/m" or "20 in-flight".
func (r *Rule) Amount() string {
	if !r.InFlight {
		for _, unit := range units {
			if n := math.Round(float64(r.Limit) * unit.seconds); n >= 1 && math.Abs(n-float64(r.Limit)*unit.seconds) < 1e-9*n {
				return strconv.FormatFloat(n, 'f', -1, 64) + unit.name
			}
		}
	}
	return r.amount(r.Limit)
}

// units are the times that a limit may be per.
var units = []struct {
	name    string
	seconds float64
}{{"/s", 1}, {"/m", 60}, {"/h", 3600}, {"/d", 86400}}

// amount writes a limit in the unit of r.
func (r *Rule) amount(l rate.Limit) string {
	if r.InFlight {
		return number(float64(l)) + " in-flight"
	}
	return perTime(l)
}

// perTime writes a limit per second, or, where that takes many digits, per minute, hour or day
// if that takes few and reads back as the same: 5/m.
func perTime(l rate.Limit) string {
	const many = 8
	text := number(float64(l)) + "/s"
	for _, unit := range units[1:] {
		other := number(math.Round(float64(l)*unit.seconds*1e6)/1e6) + unit.name
		if got, err := parseRate(other); len(text) > many && len(other) <= many && err == nil && got == l {
			return other
		}
	}
	return text
}

// percentOf writes a part the shortest way that reads back as the same, if
// there is one.
func percentOf(part float64) string {
	text := ""
	for digits := 1; digits <= 17; digits++ {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(part*100, 'g', digits, 64), 64)
		text = number(rounded) + "%"
		if got, err := parsePercent(text); err == nil && got == part {
			break
		}
	}
	return text
}

func byBand(priorities map[int64]string) map[string]string {
	m := make(map[string]string, len(priorities))
	for band, algorithm := range priorities {
		m[strconv.FormatInt(band, 10)] = algorithm
	}
	return m
}

// Fields are p's fields as a config file writes them, see Rule.Fields. p is
// of a Snapshot.
func (p Properties) Fields() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		_ = yield("update_interval", duration(p.UpdateInterval)) &&
			yield("update_timeout", duration(p.UpdateTimeout)) &&
			yield("new_data_weight", p.NewDataWeight) &&
			yield("decay_after", duration(p.DecayAfter)) &&
			yield("gc_after", duration(p.GCAfter)) &&
			yield("max_owned_keys", int64(p.MaxKeys)) &&
			yield("max_hosts_per_key", int64(p.MaxHostsPerKey))
	}
}

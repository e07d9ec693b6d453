// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/render"
)

// Fields are r's fields as a config file writes them, by their names there,
// in an order for people: the value of each is a string ("100/s", "30s"), a
// bool, an int64, a float64 or a map[string]string. r is of a Snapshot, so
// that defaults are among them. Fields that mean nothing for r (a burst of
// slots, a safe capacity beside another fallback) are left out. An Override that holds is
// among them as "override", which no file has.
func (r *Rule) Fields() iter.Seq2[string, any] {
	leased := slices.ContainsFunc(r.Algorithms(), Leases)
	return func(yield func(string, any) bool) {
		_ = yield("key", r.Key) &&
			yield("limit", quantity.Amount(r.Limit, r.InFlight)) &&
			(r.Burst == 0 || yield("burst", r.Burst)) &&
			(r.MaxWait == 0 || yield("max_wait", quantity.Duration(max(r.MaxWait, 0)))) &&
			(r.MaxDebt == 0 || yield("max_debt", quantity.Duration(max(r.MaxDebt, 0)))) &&
			(r.MaxCost == 0 || yield("max_cost", r.MaxCost)) &&
			(r.Enforce == 0 || yield("enforce", quantity.Percent(r.Enforced()))) &&
			r.yieldAlgorithm(yield) &&
			(len(r.Parameters) == 0 || yield("parameters", maps.Clone(r.Parameters))) &&
			(r.AskTimeout == 0 || yield("ask_timeout", quantity.Duration(r.AskTimeout))) &&
			yield("fallback", r.Fallback.String()) &&
			(r.SafeCapacity == 0 || yield("safe_capacity", quantity.Amount(r.SafeCapacity, r.InFlight))) &&
			yield("lease", quantity.Duration(r.Lease)) &&
			yield("refresh", quantity.Duration(r.Refresh)) &&
			yield("learning", quantity.Duration(max(r.Learning, 0))) &&
			yield("recalculate", quantity.Duration(max(r.Recalculate, 0))) &&
			(!leased || yield("overcommit", quantity.Percent(r.Overcommit))) &&
			yield("priority", r.Priority) &&
			(len(r.Priorities) == 0 || yield("priorities", byBand(r.Priorities))) &&
			(!r.OneBand || yield("one_band", true)) &&
			yield("parent", r.Parent) &&
			yield("idle_after", quantity.Duration(r.IdleAfter)) &&
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
func (r *Rule) Amount() string { return quantity.Rounded(r.Limit, r.InFlight) }

func byBand(priorities map[int64]string) map[string]string {
	m := make(map[string]string, len(priorities))
	for band, algorithm := range priorities {
		m[strconv.FormatInt(band, 10)] = algorithm
	}
	return m
}

// YAML is r as a file writes it in the list of limits, each line behind
// indent.
func (r *Rule) YAML(indent string) []byte {
	w := new(render.Writer)
	w.Fields(indent, indent, r.Fields())
	return []byte(w.String())
}

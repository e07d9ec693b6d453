// SPDX-License-Identifier: Apache-2.0

// Package fingerprint compares whether two configurations mean the same. It does not know where
// they came from, and what the time is.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// seed is random for each process, so that nobody can write two different rules with the same sum.
var seed = maphash.MakeSeed()

// Of hashes what c means. rules are sums of its rules, by which this process compares them with those of another
// Content: two rules that differ have two sums.
func Of(c *build.Content) (version string, rules []uint64) {
	h := sha256.New()
	rules = make([]uint64, 0, len(c.Rules))
	writeProperties(h, c.Properties)
	fmt.Fprintf(h, " %v\n", c.Unmatched)
	for _, p := range c.Runs {
		if p.Meaning == nil {
			mean(p.Run)
		}
		h.Write(p.Meaning)
		rules = append(rules, p.Sums...)
	}
	if c.UnmatchedRule != nil {
		h.Write(appendRule(nil, c.UnmatchedRule))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		v := c.Values[name].V
		fmt.Fprintf(h, "%q %T %#v\n", name, v, v)
	}
	for i := range c.Overrides {
		o := &c.Overrides[i]
		fmt.Fprintf(h, "%q %v %q %d %q %q\n", o.Key, o.All, o.Amount(), o.Until.UnixNano(), o.Author, o.Reason)
	}
	if c.Private { // nothing otherwise, as earlier versions of headgate
		fmt.Fprintln(h, "private")
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), rules
}

// mean keeps in r what its rules mean.
func mean(r *build.Run) {
	meaning := make([]byte, 0, 160*len(r.Rules))
	r.Sums = make([]uint64, len(r.Rules))
	for i := range r.Rules {
		begin := len(meaning)
		meaning = appendRule(meaning, &r.Rules[i])
		r.Sums[i] = maphash.Bytes(seed, meaning[begin:])
	}
	r.Meaning = bytes.Clone(meaning) // without the room that is left
}

// writeProperties writes p in a form that does not change from one version of headgate to the
// next: hosts compare fingerprints while they are upgraded.
func writeProperties(w io.Writer, p rule.Properties) {
	fmt.Fprintf(w, "dynamicconfig.Properties{UpdateInterval:%d, UpdateTimeout:%d, NewDataWeight:%#v, DecayAfter:%d, GCAfter:%d, MaxKeys:%d, MaxHostsPerKey:%d}",
		p.UpdateInterval, p.UpdateTimeout, p.NewDataWeight, p.DecayAfter, p.GCAfter, p.MaxKeys, p.MaxHostsPerKey)
}

// appendRule appends all fields of r: two rules that differ append different bytes. Rules append
// the same bytes in all versions of headgate. So a field that comes later appends its name and its
// value at the end, and nothing while it is zero.
func appendRule(b []byte, r *rule.Rule) []byte {
	text := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(b, ':')
		b = append(b, s...)
	}
	whole := func(n int64) {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, ' ')
	}
	float := func(f float64) {
		b = strconv.AppendUint(b, math.Float64bits(f), 16)
		b = append(b, ' ')
	}
	flags := int64(0)
	for i, set := range []bool{r.InFlight, r.Shared, r.Private, r.OneBand, r.Parent, r.Migration != nil} {
		if set {
			flags |= 1 << i
		}
	}
	text(r.Key)
	text(r.Algorithm)
	text(r.Description)
	whole(flags)
	for _, f := range []float64{float64(r.Limit), r.Burst, float64(r.SafeCapacity), r.Overcommit, r.MaxCost, r.Enforce} {
		float(f)
	}
	for _, n := range []int64{
		int64(r.Fallback), int64(r.Lease), int64(r.IdleAfter), int64(r.MaxKeys), int64(r.Refresh), int64(r.Learning), int64(r.Recalculate),
		r.Priority, int64(r.MaxWait), int64(r.MaxDebt), int64(r.AskTimeout), int64(len(r.Parameters)), int64(len(r.Priorities)),
	} {
		whole(n)
	}
	if m := r.Migration; m != nil {
		text(m.From)
		text(m.To)
		whole(int64(m.Mode))
	}
	if len(r.Parameters) > 0 { // most rules have none
		for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
			text(name)
			text(r.Parameters[name])
		}
	}
	if len(r.Priorities) > 0 {
		for _, band := range slices.Sorted(maps.Keys(r.Priorities)) {
			whole(band)
			text(r.Priorities[band])
		}
	}
	return append(b, '\n')
}

// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Properties checks p and fills in its defaults. stated says which fields a
// file stated, by their names there; nil when made in code.
func (b *Builder) Properties(p rule.Properties, stated map[string]Field) {
	report := func(name, format string, args ...any) {
		if !stated[name].Bad {
			b.problems.Add(stated[name].At, name+": "+format, args...)
		}
	}
	zero := func(name string, isZero bool) bool { // whether the default applies
		f, ok := stated[name]
		return isZero && (!ok || f.Bad)
	}
	between := func(name string, v *time.Duration, byDefault, least, most time.Duration) {
		if zero(name, *v == 0) {
			*v = byDefault
		} else if *v < least || *v > most {
			from := quantity.Duration(least) + " to "
			if least == 1 {
				from = "more than 0 and at most "
			}
			report(name, "%s is out of range: use %s%s", quantity.Duration(*v), from, quantity.Duration(most))
			*v = byDefault
		}
	}
	between("update_interval", &p.UpdateInterval, defaultUpdateInterval, 100*time.Millisecond, time.Hour)
	interval := p.UpdateInterval

	if zero("update_timeout", p.UpdateTimeout == 0) {
		p.UpdateTimeout = min(time.Second, interval)
	} else if p.UpdateTimeout <= 0 || p.UpdateTimeout > interval {
		report("update_timeout", "%s is out of range: use more than 0 and at most update_interval, which is %s", quantity.Duration(p.UpdateTimeout), quantity.Duration(interval))
	}
	if zero("new_data_weight", p.NewDataWeight == 0) {
		p.NewDataWeight = 0.5
	} else if !(p.NewDataWeight > 0 && p.NewDataWeight <= 1) {
		report("new_data_weight", "%s is out of range: use more than 0 and at most 1", quantity.Number(p.NewDataWeight))
	}
	between("decay_after", &p.DecayAfter, 2*interval, 1, maxDuration)
	if zero("gc_after", p.GCAfter == 0) {
		p.GCAfter = max(10*interval, p.DecayAfter)
	} else if p.GCAfter < p.DecayAfter || p.GCAfter > maxDuration {
		report("gc_after", "%s is out of range: use decay_after, which is %s, to %s", quantity.Duration(p.GCAfter), quantity.Duration(p.DecayAfter), quantity.Duration(maxDuration))
	}
	count := func(name string, v *int, byDefault int) {
		if zero(name, *v == 0) {
			*v = byDefault
		} else if *v < 1 || *v > maxCount {
			report(name, "%d is out of range: use 1 to %d", *v, maxCount)
		}
	}
	count("max_owned_keys", &p.MaxKeys, 1_000_000)
	count("max_hosts_per_key", &p.MaxHostsPerKey, 10_000)
	b.content.Properties = p
}

// SPDX-License-Identifier: Apache-2.0

package quotaserviceconfig

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/bucketkey"
	"github.com/headgate/headgate/internal/importedtest"
)

func TestGoldens(t *testing.T) { importedtest.Goldens(t, "qs.yaml", Import) }

func imported(t importedtest.Failing, text string) *dynamicconfig.Snapshot {
	t.Helper()
	return importedtest.Snapshot(t, "qs.yaml", Import, text)
}

// The conformance case of quotaservice's defaults.
func TestMissingFieldsHaveQuotaservicesDefaults(t *testing.T) {
	s := imported(t, "namespaces: {a: {buckets: {size: {size: 100}, fill: {fill_rate: 321}, none: {}, zero: {size: 0}}}}")
	for key, want := range map[string]dynamicconfig.Rule{
		"a:size": {Limit: 50, Burst: 100, MaxCost: 50},
		"a:none": {Limit: 50, Burst: 100, MaxCost: 50},
		"a:zero": {Limit: 50, Burst: 100, MaxCost: 50},
		"a:fill": {Limit: 321, Burst: 100, MaxCost: 321},
	} {
		r, ok := s.Match(key)
		if !ok || r.Key != key || r.Limit != want.Limit || r.Burst != want.Burst || r.MaxCost != want.MaxCost || r.Shared ||
			r.MaxWait != time.Second || r.MaxDebt != 10*time.Second || r.IdleAfter != 30*24*time.Hour || r.Algorithm != "exact" {
			t.Errorf("%s has the rule %+v", key, r)
		}
	}
	if s.Unmatched() != dynamicconfig.UnmatchedDeny {
		t.Errorf("other keys: %v", s.Unmatched())
	}
}

// Numbers below 0 mean what they mean there: nobody waits, buckets stay, and there is no bound.
func TestNumbersBelowZeroMeanWhatTheyMeanThere(t *testing.T) {
	const bucket = "{wait_timeout_millis: -1, max_idle_millis: -2, max_tokens_per_request: -1}"
	s := imported(t, "namespaces: {a: {buckets: {b: "+bucket+"}}, d: {max_dynamic_buckets: -1, dynamic_bucket_template: "+bucket+"}}")
	for _, key := range []string{"a:b", "d:any"} {
		r, ok := s.Match(key)
		if !ok || r.MaxWait != dynamicconfig.None || r.IdleAfter != 30*24*time.Hour || r.MaxCost != rule.MaxCost || r.MaxDebt != 10*time.Second {
			t.Errorf("%s has the rule %+v", key, r)
		}
	}
	if r, _ := s.Match("d:any"); r.MaxKeys != 1_000_000_000 {
		t.Errorf("at most %d keys", r.MaxKeys)
	}
}

// found is the bucket that quotaservice uses, by what its search order says:
// its fill rate, whether one bucket is for many names, and 0 without any.
func found(c model, namespace, name string) (fill int64, shared bool) {
	ns, ok := c.namespaces[namespace]
	switch {
	case ok && ns.named[name] > 0:
		return ns.named[name], false
	case ok && ns.template > 0:
		return ns.template, false
	case ok && ns.fallback > 0:
		return ns.fallback, true
	case ok:
		return 0, false
	}
	return c.global, true
}

// model is a config as maps, with fill rates for buckets; 0: not there.
type model struct {
	global     int64
	namespaces map[string]modelNamespace
}

type modelNamespace struct {
	named              map[string]int64
	template, fallback int64
}

func (m model) yaml() string {
	var b strings.Builder
	if m.global > 0 {
		fmt.Fprintf(&b, "global_default_bucket: {fill_rate: %d}\n", m.global)
	}
	b.WriteString("namespaces:\n")
	for _, name := range slices.Sorted(maps.Keys(m.namespaces)) {
		ns := m.namespaces[name]
		fmt.Fprintf(&b, "  %q:\n    max_dynamic_buckets: 9\n", name)
		if ns.template > 0 {
			fmt.Fprintf(&b, "    dynamic_bucket_template: {fill_rate: %d}\n", ns.template)
		}
		if ns.fallback > 0 {
			fmt.Fprintf(&b, "    default_bucket: {fill_rate: %d}\n", ns.fallback)
		}
		if len(ns.named) > 0 {
			b.WriteString("    buckets:\n")
			for _, name := range slices.Sorted(maps.Keys(ns.named)) {
				fmt.Fprintf(&b, "      %q: {fill_rate: %d}\n", name, ns.named[name])
			}
		}
	}
	return b.String()
}

// Whatever the names, a request finds the same bucket as there.
func TestNamesFindTheSameBucket(t *testing.T) {
	name := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*?[]\!-_é .:%`)), 1, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		fill := int64(0)
		next := func() int64 { fill++; return fill }
		sometimes := func(what string) int64 {
			if rapid.Bool().Draw(t, what) {
				return next()
			}
			return 0
		}
		c := model{global: sometimes("global"), namespaces: make(map[string]modelNamespace)}
		for _, n := range rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "namespaces") {
			ns := modelNamespace{named: make(map[string]int64)}
			if rapid.Bool().Draw(t, "dynamic") {
				ns.template = sometimes("template")
			} else {
				ns.fallback = sometimes("fallback")
			}
			for _, b := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "buckets") {
				ns.named[b] = next()
			}
			c.namespaces[n] = ns
		}
		s := imported(t, c.yaml())
		known := slices.Sorted(maps.Keys(c.namespaces))
		for range 20 {
			n, b := name.Draw(t, "any namespace"), name.Draw(t, "any name")
			if rapid.Bool().Draw(t, "known") {
				n = rapid.SampledFrom(known).Draw(t, "namespace")
				if named := slices.Sorted(maps.Keys(c.namespaces[n].named)); len(named) > 0 && rapid.Bool().Draw(t, "named") {
					b = rapid.SampledFrom(named).Draw(t, "name")
				}
			}
			want, shared := found(c, n, b)
			key := bucketkey.Of(n, b)
			if ns, own := c.namespaces[n]; !own || ns.named[b] == 0 {
				for other, ns := range c.namespaces { // a name that is the pattern of the others of a namespace
					if ns.template == 0 && key == literal(bucketkey.Namespace(other))+"*" && (ns.fallback > 0 || c.global > 0) {
						want, shared = ns.fallback, true
					}
				}
			}
			r, ok := s.Match(key)
			ok = ok && !r.InFlight // slots, of which there are none, are no bucket
			if ok != (want > 0) || ok && (int64(r.Limit) != want || r.Shared != shared) {
				t.Fatalf("%q:%q has fill rate %d there, and here the rule %+v of\n%s", n, b, want, r, c.yaml())
			}
		}
	})
}

// Whatever whole numbers come in, what is taken becomes a rule with that
// meaning.
func TestNumbersKeepTheirValue(t *testing.T) {
	numbers := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(1, 1e12), rapid.Int64Range(-2, 1), rapid.Int64())
	or := func(v, usual int64) int64 {
		if v == 0 {
			return usual
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		size, fill, tokens := numbers.Draw(t, "size"), numbers.Draw(t, "fill"), numbers.Draw(t, "tokens")
		wait, debt, idle := numbers.Draw(t, "wait"), numbers.Draw(t, "debt"), numbers.Draw(t, "idle")
		out, err := Import("f", fmt.Appendf(nil, "global_default_bucket: {size: %d, fill_rate: %d, max_tokens_per_request: %d, wait_timeout_millis: %d, max_debt_millis: %d, max_idle_millis: %d}", size, fill, tokens, wait, debt, idle))
		inRange := func(v int64) bool { return v >= 0 && v <= 1e12 }
		valid := inRange(size) && inRange(fill) && tokens <= 1e12 && debt >= 0
		if valid {
			valid = float64(or(size, 100)) <= float64(or(fill, 50))*rule.MaxRefill.Seconds()
		}
		if valid != (err == nil) {
			t.Fatalf("Import = %v", err)
		}
		if err != nil {
			return
		}
		s, err := dynamicconfig.Parse("limits.yaml", out)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Rules()[0]
		day := int64(24 * time.Hour / time.Millisecond)
		wantIdle := 30 * day
		if idle > 0 {
			wantIdle = min(idle, wantIdle)
		}
		wantCost := or(tokens, or(fill, 50))
		if tokens < 0 {
			wantCost = rule.MaxCost
		}
		if int64(r.Limit) != or(fill, 50) || int64(r.Burst) != or(size, 100) || int64(r.MaxCost) != wantCost ||
			r.MaxWait.Milliseconds() != min(max(or(wait, 1000), 0), day) || r.MaxDebt.Milliseconds() != min(or(debt, 10_000), day) || r.IdleAfter.Milliseconds() != wantIdle {
			t.Fatalf("rule = %+v of\n%s", r, out)
		}
	})
}

// A config that becomes more limits than fit is refused.
func TestMuchThatBecomesMoreIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("namespaces:\n")
	for ns := range 200 {
		fmt.Fprintf(&b, "  %d%s:\n    buckets: {", ns, strings.Repeat("n", 240))
		for i := range 500 {
			fmt.Fprintf(&b, "%d: {}, ", i)
		}
		b.WriteString("x: {}}\n")
	}
	if _, err := Import("big", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "bytes of limits, and 16777216 is the most") {
		t.Errorf("Import = %v", err)
	}
	if _, err := Import("big", make([]byte, dynamicconfig.MaxSize+1)); err == nil || !strings.Contains(err.Error(), "has 1048577 bytes") {
		t.Errorf("Import = %v", err)
	}
}

// The names in a config are data, and there may be thousands: as many as fit into the file.
func TestAConfigMayHaveThousandsOfNames(t *testing.T) {
	var namespaces, buckets strings.Builder
	namespaces.WriteString("namespaces:\n")
	buckets.WriteString("namespaces:\n  a:\n    buckets:\n")
	const many = 5000
	for i := range many {
		fmt.Fprintf(&namespaces, "  n%d:\n    max_dynamic_buckets: 9\n    dynamic_bucket_template: {size: 5, fill_rate: %d}\n", i, i+1)
		fmt.Fprintf(&buckets, "      b%d: {size: 5, fill_rate: %d}\n", i, i+1)
	}
	for key, text := range map[string]string{"n4999:any": namespaces.String(), "a:b4999": buckets.String()} {
		if r, ok := imported(t, text).Match(key); !ok || r.Limit != many {
			t.Errorf("%s has the rule %+v", key, r)
		}
	}
}

// In JSON, a field that is null is one that is not there. A namespace or bucket cannot be null.
func TestAFieldThatIsNullInJSONIsMissing(t *testing.T) {
	const missing = `{"namespaces": {"a": {"buckets": {"b": {"fill_rate": 7}}}, "c": {"default_bucket": {}}}}`
	const null = `{"global_default_bucket": null, "user": null, "namespaces": {
		"a": {"buckets": {"b": {"size": null, "fill_rate": 7}}, "default_bucket": null, "dynamic_bucket_template": null, "max_dynamic_buckets": null},
		"c": {"default_bucket": {}, "buckets": null}}}`
	want, err := Import("f", []byte(missing))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Import("f", []byte(null)); err != nil || string(got) != string(want) {
		t.Errorf("Import = %s, %v, want %s", got, err, want)
	}
	for _, text := range []string{`{"namespaces": {"a": null}}`, `{"namespaces": {"a": {"buckets": {"b": null}}}}`, "namespaces: {a: {default_bucket: null}}"} {
		if out, err := Import("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "has no value") {
			t.Errorf("%s: %s, %v", text, out, err)
		}
	}
}

// A config without a mistake becomes limits of which `limits check` says nothing.
func TestWhatIsImportedHasNoWarnings(t *testing.T) {
	for _, text := range []string{
		`{"namespaces": {"a": {"buckets": {"b": {"size": 10, "fill_rate": 5}}, "default_bucket": {}}}, "global_default_bucket": {}}`,
		"namespaces: {a: {dynamic_bucket_template: {size: 10, max_tokens_per_request: -1}}}",
	} {
		if got := imported(t, text).Warnings(); len(got) > 0 {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Import never panics, and what it makes can be read.
func FuzzImport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Import("f", data)
		if err != nil {
			if one := new(dynamicconfig.Error); !errors.As(err, &one) || strings.Contains(err.Error(), "defect") {
				t.Fatal(err)
			}
			return
		}
		s, err := dynamicconfig.Parse("limits.yaml", out)
		if err != nil || s.Unmatched() != dynamicconfig.UnmatchedDeny {
			t.Fatalf("%v in\n%s", err, out)
		}
	})
}

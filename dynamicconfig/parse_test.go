// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/goldentest"
	"github.com/headgate/headgate/internal/testrun"
)

// Each file in testdata/broken has beside it what Parse says of it.
func TestBrokenFilesSayWhatToDo(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d broken files, error %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse("limits.yaml", data)
			if err == nil || s != nil {
				t.Fatalf("Parse = %v, %v; want no snapshot and an error", s, err)
			}
			if one := new(Error); !errors.As(err, &one) || one.Name != "limits.yaml" {
				t.Errorf("no *Error with the name in %#v", err)
			}
			goldentest.Same(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

func mustParse(t testing.TB, text string) *Snapshot {
	t.Helper()
	s, err := Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseReadsEachField(t *testing.T) {
	s := mustParse(t, `
defaults:
  update_interval: 2s
  update_timeout: 500ms
  new_data_weight: 0.25
  decay_after: 8s
  gc_after: 1m
  max_owned_keys: 5000
  max_hosts_per_key: 70
  algorithm: exact
  fallback: safe
  safe_capacity: 3/s
  lease: 1m
  idle_after: 1d12h
  max_keys: 1e3
  ask_timeout: 30ms
limits:
  - key: "a:*"
    limit: 90 / m
    burst: 7.5
    algorithm: even
    fallback: closed
    lease: 10s
    idle_after: 30d
    max_keys: 4
    shared: true
    description: |
      two
      lines
  - {key: b, limit: 1.5e3/s, migrate: {from: old-one, to: new-one, mode: new-shadow-old}}
  - {key: c, limit: "0/s"}
unmatched: {limit: 36/h, fallback: even}
`)
	if got, want := s.Properties(), (Properties{
		UpdateInterval: 2 * time.Second, UpdateTimeout: 500 * time.Millisecond, NewDataWeight: 0.25,
		DecayAfter: 8 * time.Second, GCAfter: time.Minute, MaxKeys: 5000, MaxHostsPerKey: 70,
	}); got != want {
		t.Errorf("properties = %+v, want %+v", got, want)
	}
	want := []Rule{
		{Key: "a:*", Refresh: 2 * time.Second, Learning: 10 * time.Second, Recalculate: 5 * time.Second, Limit: 1.5, Burst: 7.5, Algorithm: "even", Fallback: FallbackClosed, Lease: 10 * time.Second, IdleAfter: 720 * time.Hour, MaxKeys: 4, Shared: true, Description: "two\nlines\n"},
		{Key: "b", Refresh: 2 * time.Second, Learning: time.Minute, Recalculate: 5 * time.Second, Limit: 1500, Burst: 1500, Fallback: FallbackSafe, SafeCapacity: 3, Lease: time.Minute, IdleAfter: 36 * time.Hour, MaxKeys: 1000, AskTimeout: 30 * time.Millisecond},
		{Key: "c", Refresh: 2 * time.Second, Learning: time.Minute, Recalculate: 5 * time.Second, Limit: 0, Burst: 0, Algorithm: "exact", Fallback: FallbackSafe, SafeCapacity: 3, Lease: time.Minute, IdleAfter: 36 * time.Hour, MaxKeys: 1000, AskTimeout: 30 * time.Millisecond},
	}
	got := s.Rules()
	if m := got[1].Migration; m == nil || *m != (Migration{From: "old-one", To: "new-one", Mode: ModeNewShadowOld}) {
		t.Errorf("migration = %+v", m)
	}
	got[1].Migration = nil
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("rule %d = %+v, want %+v", i, got[i], want[i])
		}
	}
	u, ok := s.Match("else")
	if !ok || u != s.UnmatchedRule() || s.Unmatched() != UnmatchedRule {
		t.Fatalf("Match of another key = %v, %v", u, ok)
	}
	if want := (Rule{Key: "*", Refresh: 2 * time.Second, Learning: time.Minute, Recalculate: 5 * time.Second, Limit: 0.01, Burst: 1, Algorithm: "exact", Lease: time.Minute, IdleAfter: 36 * time.Hour, MaxKeys: 1000, AskTimeout: 30 * time.Millisecond}); !reflect.DeepEqual(*u, want) {
		t.Errorf("unmatched rule = %+v, want %+v", *u, want)
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	s := mustParse(t, "defaults: {update_interval: 500ms}\nlimits: [{key: a, limit: 10/s}, {key: b, limit: 1/h}]\n")
	if got, want := s.Properties(), (Properties{
		UpdateInterval: 500 * time.Millisecond, UpdateTimeout: 500 * time.Millisecond, NewDataWeight: 0.5,
		DecayAfter: time.Second, GCAfter: 5 * time.Second, MaxKeys: 1_000_000, MaxHostsPerKey: 10_000,
	}); got != want {
		t.Errorf("properties = %+v, want %+v", got, want)
	}
	for i, burst := range []float64{10, 1} {
		r := s.Rules()[i]
		if r.Algorithm != "auto" || r.Burst != burst || r.Fallback != FallbackEven || r.Lease != 5*time.Second || r.IdleAfter != 2500*time.Millisecond || r.MaxKeys != 100_000 {
			t.Errorf("rule = %+v", r)
		}
	}
	if _, ok := s.Match("else"); ok || s.Unmatched() != UnmatchedAllow {
		t.Errorf("other keys are not allowed: %v", s.Unmatched())
	}
}

func TestParseFollowsAliases(t *testing.T) {
	s := mustParse(t, "defaults: {lease: &d 20s, idle_after: *d}\nlimits:\n  - key: a\n    limit: &l 5/s\n  - key: b\n    limit: *l\n")
	if r := s.Rules()[1]; r.Limit != 5 || r.IdleAfter != 20*time.Second {
		t.Errorf("rule = %+v", r)
	}
}

func TestParseTakesOtherLineEnds(t *testing.T) {
	s := mustParse(t, "\xef\xbb\xbflimits:\r\n  - key: a\r\n    limit: 5/s\r\n")
	if s.Rules()[0].Limit != 5 {
		t.Errorf("rules = %+v", s.Rules())
	}
}

// What would cost the YAML library a deep stack or quadratic time is refused
// before it gets there.
func TestParseRefusesBombsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("each bomb has 128 KiB or more")
	}
	size, most := MaxSize/8, 2*time.Second // what takes quadratic time takes a sixteenth of that of half a MiB
	if testrun.Long() {
		size, most = MaxSize/2, 10*time.Second
	}
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var aliases strings.Builder
	aliases.WriteString("limits:\n  - &a {")
	for i := range 20_000 {
		aliases.WriteString("x" + itoa(i) + ": 1,")
	}
	aliases.WriteString("}\n" + strings.Repeat("  - *a\n", 30_000))
	for name, text := range map[string]string{
		"too big":        strings.Repeat("#", MaxSize+1),
		"lists":          repeat("["),
		"maps":           repeat("{a: "),
		"entries":        repeat("- "),
		"fields":         repeat("a: "),
		"anchors":        repeat("&a "),
		"anchored lines": repeat("&a\n"),
		"tags":           repeat("!a "),
		"questions":      repeat("? "),
		"documents":      repeat("---\n"),
		"pipes":          repeat("a: |\n"),
		"quotes":         repeat(`"`),
		"flow fields":    "a: {" + repeat("a: 1,") + "}",
		"flow pairs":     "a: [" + repeat("a: 1,") + "]",
		"flow colons":    "a: [" + repeat("a: ") + "]",
		"flow colons 2":  "a: {" + repeat("a: ") + "}",
		"bare colons":    "a: {" + repeat(":") + "}",
		"commas":         "a: [" + repeat(",") + "]",
		"aliases":        aliases.String(),
		"alias list":     "limits: [&a {key: a, limit: 1/s}," + repeat("*a,") + "]",
		"lines of flow":  "a: [\n" + repeat("a: 1,\n") + "]",
		"indents":        nested(1400),
		"empty lines":    "a: |\n" + repeat("\n"),
		"blank lines":    "a: |\n" + repeat(" \n"),
		"literals":       repeat("a: |\n" + strings.Repeat("\n", 90)),
		"many maps":      wide(size, 1999, " a: 1\n"),
		"no values":      wide(size, 1999, " a:\n"),
		"no entries":     "limits:\n" + repeat("-\n"),
		"no entries 2":   "limits:\n" + repeat("- \n # c\n"),
		"no values 2":    "limits:\n" + repeat("- a: # b\n"),
		"no values 3":    "limits:\n" + repeat("- a: &b\n"),
		"no values 4":    "limits: [" + repeat("{a: },") + "]",
		"no values 5":    "limits: [" + repeat("{a},") + "]",
		"no values 6":    "limits:\n" + repeat("- {a: }\n"),
		"documents 2":    repeat("---\na: 1\n"),
		"words":          repeat("a\n"),
		"colon lines":    repeat(":\n"),
	} {
		t.Run(name, func(t *testing.T) {
			began := testrun.CPUTime(t)
			if _, err := Parse("bomb", []byte(text)); err == nil {
				t.Error("no error")
			}
			if d := testrun.CPUTime(t) - began; d > most {
				t.Errorf("took %v of the processors' time", d)
			}
		})
	}
}

func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// wide is as many maps of so many fields as fit into size bytes.
func wide(size, fields int, field string) string {
	var b strings.Builder
	for n := 0; b.Len() < size; n++ {
		b.WriteString("k" + itoa(n) + ":\n" + strings.Repeat(field, fields))
	}
	return b.String()
}

// The user's reference must be right.
func TestDocumentedExamplesParse(t *testing.T) {
	data, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(data), "```yaml\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("found %d examples", len(blocks))
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		if _, err := Parse("example "+itoa(i+1), []byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestCheckPointsAtUnknownAlgorithms(t *testing.T) {
	s := mustParse(t, `defaults:
  algorithm: elastic
limits:
  - {key: a, limit: 1/s}
  - {key: b, limit: 1/s}
  - key: c
    limit: 1/s
    migrate:
      from: even
      to: mine
      mode: old
unmatched: {limit: 1/s, algorithm: yours}
`)
	if got := strings.Join(s.Algorithms(), " "); got != "elastic even mine yours" {
		t.Errorf("Algorithms() = %s", got)
	}
	if err := s.Check(func(string) bool { return true }); err != nil {
		t.Errorf("Check = %v", err)
	}
	err := s.Check(func(name string) bool { return name == "even" })
	const want = `limits.yaml:2:14: there is no algorithm "elastic" here: use even, or register your own with headgate.WithAlgorithm; for headgate limits without a daemon, name it with --also
    2 |   algorithm: elastic
      |              ^
limits.yaml:10:11: there is no algorithm "mine" here: use even, or register your own with headgate.WithAlgorithm; for headgate limits without a daemon, name it with --also
   10 |       to: mine
      |           ^
limits.yaml:12:36: there is no algorithm "yours" here: use even, or register your own with headgate.WithAlgorithm; for headgate limits without a daemon, name it with --also
   12 | unmatched: {limit: 1/s, algorithm: yours}
      |                                    ^`
	if err == nil || err.Error() != want {
		t.Errorf("Check =\n%v\nwant\n%s", err, want)
	}
}

func TestCheckSaysHowToConnectRedis(t *testing.T) {
	s := mustParse(t, "limits: [{key: k, limit: 1/s, algorithm: redis}]")
	err := s.Check(func(string) bool { return false })
	if err == nil || !strings.Contains(err.Error(), `limits.yaml:1:42: there is no algorithm "redis" here: name the server, with headgate serve --redis`) {
		t.Errorf("%v", err)
	}
}

func TestCheckSuggestsTheAlgorithmThatWasMeant(t *testing.T) {
	s := mustParse(t, "limits: [{key: k, limit: 1/s, algorithm: elasitc}]")
	err := s.Check(func(name string) bool { return name != "elasitc" })
	if err == nil || !strings.Contains(err.Error(), `there is no algorithm "elasitc" here: did you mean elastic? Else register your own`) {
		t.Errorf("%v", err)
	}
}

func TestParseCheckedSaysAllMistakesInTheOrderOfTheText(t *testing.T) {
	const text = `limits:
  - {key: a, limit: 1rps}
  - {key: b, limit: 1/s, algorithm: mine}
  - {key: c, limit: 1rps}
  - {key: d, limit: 1/s, algorithm: even, parameters: {x: 1}}
  - {key: e, limit: 1rps}
  - {key: f, limit: 1/s, algorithm: mine}
`
	_, err := ParseChecked("limits.yaml", []byte(text), func(s *Snapshot) error {
		return errors.Join(
			s.Check(func(name string) bool { return name != "mine" }),
			s.CheckParameters(func(string, map[string]string) error { return errors.New("takes none") }),
		)
	})
	var lines []string
	for text := range strings.Lines(err.Error()) {
		if place, ok := strings.CutPrefix(text, "limits.yaml:"); ok {
			line, _, _ := strings.Cut(place, ":")
			lines = append(lines, line)
		}
	}
	if got := strings.Join(lines, " "); got != "2 3 4 5 6 7" {
		t.Errorf("mistakes of the lines %s, want those of 2 to 7:\n%v", got, err)
	}
}

func itoa(i int) string { return strconv.Itoa(i) }

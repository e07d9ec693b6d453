// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/sim/traffic"
)

var base = Config{Format: "combined", Key: "{ip}", Hosts: 4, By: Client, Speed: 1, Limit: "5/s", Burst: 5, Algorithms: []string{"even", "exact"}, Seed: 1}

// line is a request at a second.
func line(ip string, second int) string {
	return fmt.Sprintf("%s - - [22/Nov/2026:10:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 1\n", ip, second/60, second%60)
}

func read(t *testing.T, c Config, text string) *Log {
	t.Helper()
	l, err := c.Read("a.log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func rowsOf(t *testing.T, l *Log) (all []traffic.TraceRow) {
	t.Helper()
	next := l.rows()
	for {
		row, ok, err := next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, row)
	}
}

func TestRequestsOfASecondAreSpreadOverIt(t *testing.T) {
	l := read(t, base, line("10.0.0.1", 0)+line("10.0.0.2", 0)+line("10.0.0.1", 2)+line("10.0.0.1", 1)+"\n"+line("10.0.0.3", 3))
	want := []time.Duration{250, 750, 2250, 2750, 3500}
	keys := []int32{0, 1, 0, 0, 2}
	rows := rowsOf(t, l)
	if len(rows) != len(want) || len(l.Keys) != 3 || l.Events != 5 || l.Length != 3*time.Second {
		t.Fatalf("%d rows, keys %v, %+v", len(rows), l.Keys, l)
	}
	for i, row := range rows {
		// The third of four is before the second, and counts at its time.
		if row.At != want[i]*time.Millisecond || row.Key != keys[i] || row.Host != rows[i].Host {
			t.Errorf("row %d: %+v, want at %d ms", i, row, want[i])
		}
	}
	if rows[0].Host != rows[2].Host || rows[2].Host != rows[3].Host {
		t.Error("one client is on several hosts")
	}
	fast := base
	fast.Speed = 10
	if rows := rowsOf(t, read(t, fast, line("a", 0)+line("a", 10))); rows[1].At != 1050*time.Millisecond {
		t.Errorf("ten times as fast, the second comes at %s", rows[1].At)
	}
}

// A log with milliseconds has a line at a whole second now and then.
func TestFineTimesAreKept(t *testing.T) {
	c := base
	c.Format = "json"
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "{\"ip\":\"a\",\"time\":%d.%d}\n", 1776284220+i/10, i%10)
	}
	l := read(t, c, b.String())
	for i, row := range rowsOf(t, l) {
		if d := row.At - time.Duration(i)*100*time.Millisecond; d.Abs() > time.Millisecond {
			t.Errorf("row %d comes at %s", i, row.At)
		}
	}
	// Ten in a second are what 10/s admit, one by one.
	limits, err := l.LimitFor(t.Context(), []float64{0.1}, 1)
	if err != nil || limits[0] < 9.5 || limits[0] > 10.5 {
		t.Errorf("limits %v, want 10/s: %v", limits, err)
	}
}

func TestNoLimitAdmitsMoreAtOnceThanTheBurst(t *testing.T) {
	c := base
	c.Format = "json"
	l := read(t, c, strings.Repeat("{\"ip\":\"a\",\"time\":1776284220.5}\n", 10))
	limits, err := l.LimitFor(t.Context(), []float64{0.1, 95}, 1)
	if err != nil || limits[0] != 0 || limits[1] == 0 {
		t.Errorf("limits %v of ten at once with a burst of 1: %v", limits, err)
	}
	if text := limitOf(Choice{Limit: limits[0]}); !strings.HasPrefix(text, "none") {
		t.Errorf("the table shows %s", text)
	}
	if text := limitOf(Choice{Limit: 12345.6}); text != "12346/s" {
		t.Errorf("the table shows %s", text)
	}
}

func TestRequestsWithoutAClientAreCounted(t *testing.T) {
	c := base
	c.Format, c.Key = "json", "all"
	const text = `{"time":1776284220}` + "\n" + `{"time":1776284221,"ip":"10.0.0.1"}`
	l := read(t, c, text)
	if l.NoClient != 1 {
		t.Errorf("%d of 2 requests have no client", l.NoClient)
	}
	var table strings.Builder
	if err := (&Report{NoClient: 1}).WriteTable(&table); err != nil || !strings.Contains(table.String(), "--by random") {
		t.Errorf("the table says nothing of it: %s", &table)
	}
	c.By = Random
	if l := read(t, c, text); l.NoClient != 0 {
		t.Errorf("a client is missed, where none is needed")
	}
}

func TestRandomUsesAllHosts(t *testing.T) {
	c := base
	c.By = Random
	used := make(map[int32]int)
	for _, row := range rowsOf(t, read(t, c, strings.Repeat(line("a", 0), 400))) {
		used[row.Host]++
	}
	for h := range int32(4) {
		if used[h] < 60 {
			t.Errorf("host %d has %d of 400 requests", h, used[h])
		}
	}
}

func TestALogMayBePacked(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, line("a", 0)+line("b", 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if l := read(t, base, packed.String()); l.Events != 2 {
		t.Errorf("%d events of 2", l.Events)
	}
	if _, err := base.Read("a.log.gz", strings.NewReader(packed.String()[:packed.Len()-4])); err == nil || !strings.Contains(err.Error(), "the log is cut off") {
		t.Errorf("of a packed log without its end: %v", err)
	}
}

func TestRequestsWithoutAFieldOfTheKeyAreCounted(t *testing.T) {
	c := base
	c.Key = "{user}"
	l := read(t, c, line("a", 0)+line("b", 1))
	if l.WithoutField != 2 || len(l.Keys) != 1 {
		t.Errorf("%d of 2 requests have no user, and %d keys", l.WithoutField, len(l.Keys))
	}
}

func TestMistakesNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "a.log: has no events",
		line("a", 0) + "what\n":         "a.log:2: ",
		line("a", 200) + line("a", 100): "a.log:2: the time 2026-11-22T10:01:40Z is more than 1m0s before the line above: sort the log",
		strings.Repeat("x", maxLine+1):  "a.log:1: a line of more than",
		line("a", 0) + strings.Replace(line("a", 1), "2026", "2036", 1): "a.log:2: the time 2036-11-22T10:00:01Z is 3653 days after the line above",
		`{"time": 1}` + "\n":                  "looks like json: use --format json",
		line("a", 0) + "\n\n" + "[x] \"y\"\n": "a.log:4: ",
	} {
		if _, err := base.Read("a.log", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: err = %v, want %s", text, err, want)
		}
	}
	lenient := base
	lenient.SkipBad = true
	if l := read(t, lenient, line("a", 0)+"what\n"+line("a", 1)); l.Bad != 1 || l.Events != 2 {
		t.Errorf("%+v", l)
	}
	if l := read(t, lenient, line("a", 0)+strings.Repeat("x", 3*maxLine)+"\n"+line("b", 1)+strings.Replace(line("a", 2), "2026", "2036", 1)+line("a", 3)); l.Bad != 2 || l.Events != 3 {
		t.Errorf("with a long line, and one of another year: %+v", l)
	}
	if l := read(t, base, "\ufeff"+line("a", 0)+strings.TrimSuffix(line("a", 1), "\n")+"\r"); l.Keys[0] != "a" || l.Events != 2 {
		t.Errorf("with a byte order mark: %+v", l)
	}
	if _, err := lenient.Read("a.log", strings.NewReader("what\n")); err == nil || !strings.Contains(err.Error(), "no line of a.log could be read: a.log:1: ") {
		t.Errorf("of bad lines only: %v", err)
	}
	if _, err := base.Read("a.log", strings.NewReader(`{"time": 1}`+"\n")); err == nil || !strings.Contains(err.Error(), "use --format json") {
		t.Errorf("an object in a combined log: %v", err)
	}
	if _, err := base.Read("a.log", strings.NewReader("what\n")); err == nil || !strings.Contains(err.Error(), "use --skip-bad") {
		t.Errorf("of a bad line: %v", err)
	}
	var many strings.Builder
	for i := range maxKeys + 1 {
		many.WriteString(line(fmt.Sprintf("k%d", i), 0))
	}
	if _, err := lenient.Read("a.log", strings.NewReader(many.String())); err == nil || !strings.Contains(err.Error(), "choose a coarser --key") {
		t.Errorf("err = %v", err)
	}
}

func TestRowsAreRemoved(t *testing.T) {
	l := read(t, base, line("a", 0))
	name := l.file.Name()
	l.Close()
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
}

func TestWhatIsAskedForIsChecked(t *testing.T) {
	bad := Config{By: "moon", Limit: "5", Burst: 0.5}
	err := bad.Validate()
	for _, want := range []string{"--hosts 0", "--by \"moon\"", "--speed 0", "--algorithm", "--burst 0.5", "--limit"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	zero := base
	zero.Limit = "0/s"
	if err := zero.Validate(); err == nil {
		t.Error("a limit of 0 is taken")
	}
}

// One client sends 20/s for a minute, and is limited to 5/s.
func TestTheReportSaysWhatHappened(t *testing.T) {
	var b strings.Builder
	for second := range 60 {
		b.WriteString(strings.Repeat(line("busy", second), 20))
		b.WriteString(line("quiet", second))
	}
	l := read(t, base, b.String())
	r, err := base.Run(t.Context(), l, nil)
	if err != nil {
		t.Fatal(err)
	}
	perfect, even, exact := r.Lines[0], r.Lines[1], r.Lines[2]
	want := 100 * float64(15*60-5) / (21 * 60)
	if perfect.Algorithm != OneBucket || math.Abs(perfect.RejectedPct-want) > 0.2 || perfect.KeysRejected != 1 {
		t.Errorf("one bucket: %+v, want %.2f%%", perfect, want)
	}
	if math.Abs(exact.RejectedPct-perfect.RejectedPct) > 0.1 || exact.FalseRejectPct > 0.2 || exact.AsksPerHostS == 0 || exact.WaitedPct == 0 {
		t.Errorf("exact: %+v", exact)
	}
	// The client's one host has a quarter of the limit.
	if even.FalseRejectPct < 10 || even.ReportsPerHostS != 0 {
		t.Errorf("even: %+v", even)
	}
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1260 requests of 2 keys in 59s", "one bucket", "even", "exact", "one bucket rejects", "0.1%"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// dumbRejected is the part that one bucket per key rejects.
func dumbRejected(rows []traffic.TraceRow, keys int, limit, burst float64) float64 {
	tokens, at, rejected := make([]float64, keys), make([]traffic.Time, keys), 0
	for k := range tokens {
		tokens[k] = burst
	}
	for _, r := range rows {
		tokens[r.Key] = math.Min(tokens[r.Key]+limit*(r.At-at[r.Key]).Seconds(), burst)
		at[r.Key] = r.At
		if tokens[r.Key] >= 1 {
			tokens[r.Key]--
		} else {
			rejected++
		}
	}
	return 100 * float64(rejected) / float64(len(rows))
}

func TestTheLimitRejectsThatMuchAndOneBelowMore(t *testing.T) {
	r := traffic.Chance(1, "test", 0)
	var b strings.Builder
	for second := range 300 {
		for range r.IntN(30) {
			b.WriteString(line(fmt.Sprintf("c%d", r.IntN(5)), second))
		}
	}
	l := read(t, base, b.String())
	rows := rowsOf(t, l)
	parts := []float64{0.1, 1, 5, 30}
	limits, err := l.LimitFor(t.Context(), parts, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, limit := range limits {
		at, below := dumbRejected(rows, 5, limit, 5), dumbRejected(rows, 5, limit*0.99, 5)
		if at > parts[i]+1e-9 || below <= parts[i] {
			t.Errorf("%v%%: with %.4f/s %.3f%% are rejected, with 1%% less %.3f%%", parts[i], limit, at, below)
		}
	}
}

func TestKeysAreWhatLimitsTake(t *testing.T) {
	seen := make(map[string]bool)
	for _, text := range []string{"10.0.0.1", "", "a\x00b", "a\x01b", strings.Repeat("x", 5000), strings.Repeat("x", 5001), strings.Repeat("ü", 3000), "\xff", "*"} {
		key := keyOf(text)
		if seen[key] || len(key) > rule.MaxKeyLength || strings.ContainsAny(key, "\x00\x01") || !strings.HasPrefix(key, prefix) {
			t.Errorf("the key of %.20q is %.60q", text, key)
		}
		seen[key] = true
	}
}

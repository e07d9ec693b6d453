// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/stage"
)

// metric is a row of docs/metrics.md, or what the code registers.
type metric struct {
	kind   string // counter, gauge or histogram
	labels []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `headgate_([a-z0-9_]+)` \\| (\\w+) \\|([^|]*)\\| [a-z]+ \\| [^|]+ \\|[^|]*\\|$")

// documented returns the metrics of docs/metrics.md as tally names them: without
// headgate_, and _total of counters.
func documented(t *testing.T, root string) map[string]metric {
	t.Helper()
	text, err := fs.ReadFile(os.DirFS(root), "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]metric)
	for _, m := range metricRow.FindAllStringSubmatch(string(text), -1) {
		row := metric{kind: m[2]}
		for label := range strings.SplitSeq(m[3], ",") {
			if label = strings.Trim(label, " `"); label != "" {
				row.labels = append(row.labels, label)
			}
		}
		slices.Sort(row.labels)
		name := m[1]
		if row.kind == "counter" {
			if !strings.HasSuffix(name, "_total") {
				t.Errorf("docs/metrics.md: headgate_%s is a counter, and ends in _total", name)
			}
			name = strings.TrimSuffix(name, "_total")
		}
		rows[name] = row
	}
	if n := strings.Count(string(text), "\n| `headgate_"); n != len(rows) {
		t.Errorf("docs/metrics.md has %d rows of metrics, of which %d can be read and are named once", n, len(rows))
	}
	return rows
}

func TestTheTableHasAllMetricsOfTheCode(t *testing.T) {
	root, _ := repository(t)
	rows, code := documented(t, root), registered(t, os.DirFS(root))
	for _, name := range slices.Sorted(maps.Keys(code)) {
		switch row, ok := rows[name]; {
		case !ok:
			t.Errorf("docs/metrics.md lacks headgate_%s, a %s", name, code[name])
		case row.kind != code[name]:
			t.Errorf("docs/metrics.md: headgate_%s is a %s, not a %s", name, code[name], row.kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := code[name]; !ok {
			t.Errorf("docs/metrics.md: nothing registers headgate_%s", name)
		}
	}
}

// registered returns the kinds of all metrics by the names that the code gives
// to tally: the name of a call of Counter, Gauge or Histogram, after that of
// the SubScope in the same expression or, if it is the only one, in the same
// file.
func registered(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".bin", "bin", "bench", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
		if err != nil || !usesTally(file) {
			return err
		}
		maps.Copy(found, metricsOf(file))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func usesTally(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return strings.Contains(i.Path.Value, "uber-go/tally") || strings.HasSuffix(i.Path.Value, `/internal/asking"`)
	}) || file.Name.Name == "daemon"
}

// metricsOf returns the kinds of a file's metrics by their names.
func metricsOf(file *ast.File) map[string]string {
	found, scopes := make(map[string]string), make(map[string]bool)
	type registration struct{ scope, name, kind string }
	var all []registration
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch name := argument(n); method(n) {
			case "SubScope":
				scopes[name] = true
			case "Counter", "Gauge", "Histogram":
				all = append(all, registration{scopeIn(n), name, strings.ToLower(method(n))})
			case "InfoGauge":
				all = append(all, registration{"", name, "gauge"})
			}
		case *ast.CompositeLit: // of an asking.Setup
			fields := make(map[string]string)
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if id, ok := kv.Key.(*ast.Ident); ok {
						fields[id.Name] = literal(kv.Value)
					}
				}
			}
			if fields["Name"] != "" && fields["Counter"] != "" {
				all = append(all, registration{fields["Name"], fields["Counter"], "counter"})
			}
		}
		return true
	})
	for _, r := range all {
		if r.name == "" {
			continue // asking's, by the Setups of others
		}
		if r.scope == "" && len(scopes) == 1 {
			r.scope = slices.Collect(maps.Keys(scopes))[0]
		}
		found[strings.TrimPrefix(r.scope+"_"+r.name, "_")] = r.kind
	}
	return found
}

// method is the name of the method that is called.
func method(call *ast.CallExpr) string {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return ""
}

// scopeIn is the SubScope that the receiver of call comes from.
func scopeIn(call *ast.CallExpr) (scope string) {
	for {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		if call, ok = sel.X.(*ast.CallExpr); !ok {
			return ""
		}
		if method(call) == "SubScope" {
			return argument(call)
		}
	}
}

// argument is the first argument, if it is a text or mesh's Name.
func argument(call *ast.CallExpr) string {
	if len(call.Args) == 0 {
		return ""
	}
	return literal(call.Args[0])
}

func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil {
			return text
		}
	case *ast.Ident:
		if e.Name == "Name" {
			return "gossip" // limiter/mesh's
		}
	}
	return ""
}

// TestANodeHasTheLabelsOfTheTable runs a Node and looks at what it registers.
func TestANodeHasTheLabelsOfTheTable(t *testing.T) {
	root, _ := repository(t)
	rows := documented(t, root)
	scope := tally.NewTestScope("", nil)
	node := headgatetest.NewNode(t, `
defaults: {update_interval: 100ms}
limits:
  - {key: "a", limit: 10/s, migrate: {from: even, to: elastic, mode: old-shadow-new}}
  - {key: "b", limit: 10/s, enforce: 0%}
  - {key: "c", limit: 10/s, algorithm: auto}
`, headgate.WithScope(scope))
	var seen map[string][]string
	waittest.Until(t, "the node has reported", func() bool {
		for range 20 {
			node.For("a").Allow()
			node.For("b").Allow()
			node.For("c").Allow()
		}
		seen = labels(scope.Snapshot())
		return len(seen["limiter_divergence"]) > 0 && len(seen["limiter_soft"]) > 0 && len(seen["limiter_asks"]) > 0 && len(seen["aggregator_over_admitted"]) > 0
	})
	for name, labels := range seen {
		if row, ok := rows[name]; !ok {
			t.Errorf("docs/metrics.md lacks headgate_%s", name)
		} else if !slices.Equal(row.labels, labels) {
			t.Errorf("docs/metrics.md: headgate_%s has the labels %q, not %q", name, labels, row.labels)
		}
	}
	for name := range rows { // those of rpc begin with the first call to another host
		group, _, _ := strings.Cut(name, "_")
		_, ok := seen[name]
		if want := slices.Contains([]string{"limiter", "aggregator", "gossip", "config"}, group); ok != want && group != "rpc" {
			t.Errorf("docs/metrics.md says that a Node has headgate_%s: %t, and it has: %t", name, want, ok)
		}
	}
}

func TestTheTableHasTheReasonsToReject(t *testing.T) {
	root, _ := repository(t)
	text, err := fs.ReadFile(os.DirFS(root), "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(text), "| `headgate_limiter_rejected_total` |")
	_, row, _ = strings.Cut(row, "The reasons are ")
	row, _, _ = strings.Cut(row, ".")
	var reasons []string
	for reason := stage.Bypassed + 1; reason < stage.Forbidden; reason++ {
		reasons = append(reasons, "`"+reason.String()+"`")
	}
	if want := strings.Join(reasons, ", "); row != want {
		t.Errorf("docs/metrics.md has the reasons %s, want %s", row, want)
	}
}

// labels are those of each metric in a snapshot, sorted, without headgate_.
func labels(s tally.Snapshot) map[string][]string {
	found := make(map[string][]string)
	put := func(name string, tags map[string]string) {
		name = strings.TrimPrefix(strings.ReplaceAll(name, ".", "_"), "headgate_")
		found[name] = slices.Sorted(maps.Keys(tags))
	}
	for _, c := range s.Counters() {
		put(c.Name(), c.Tags())
	}
	for _, g := range s.Gauges() {
		put(g.Name(), g.Tags())
	}
	for _, h := range s.Histograms() {
		put(h.Name(), h.Tags())
	}
	return found
}

// TestAlertsAreOnMetricsThatThereAre compares the queries of docs/operations.md with
// docs/metrics.md.
func TestAlertsAreOnMetricsThatThereAre(t *testing.T) {
	root, _ := repository(t)
	text, err := fs.ReadFile(os.DirFS(root), "docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := fs.ReadFile(os.DirFS(root), "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`headgate_[a-z_]+`).FindAllString(string(text), -1)
	if len(named) < 10 {
		t.Errorf("docs/operations.md names %d metrics", len(named))
	}
	for _, name := range named {
		if !strings.Contains(string(table), "`"+name+"`") {
			t.Errorf("docs/operations.md: there is no metric %s", name)
		}
	}
}

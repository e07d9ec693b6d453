// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMonitoringFilesNameMetricsThatThereAre compares the dashboard and the alerts with docs/metrics.md,
// which other tests compare with what a daemon exposes.
func TestMonitoringFilesNameMetricsThatThereAre(t *testing.T) {
	root, _ := repository(t)
	rows := documented(t, root)
	for _, file := range []string{"dashboard.json", "alerts.yaml", "alerts_test.yaml"} {
		text, err := fs.ReadFile(os.DirFS(root), "examples/monitoring/"+file)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`headgate_[a-z_]+`).FindAllString(string(text), -1)
		if len(named) < 10 {
			t.Errorf("%s names %d metrics", file, len(named))
		}
		for _, full := range named {
			name := strings.TrimPrefix(full, "headgate_")
			kind := "gauge"
			if short, ok := strings.CutSuffix(name, "_total"); ok {
				name, kind = short, "counter"
			} else if short, ok := strings.CutSuffix(name, "_bucket"); ok {
				name, kind = short, "histogram"
			}
			if rows[name].kind != kind {
				t.Errorf("%s: there is no %s %s", file, kind, full)
			}
		}
	}
}

// TestGrafanaCanShowTheDashboard checks what Grafana wants of the panels: a number of their own, a
// place that no other has, and at least one query of the data source that the viewer chooses.
func TestGrafanaCanShowTheDashboard(t *testing.T) {
	root, _ := repository(t)
	text, err := fs.ReadFile(os.DirFS(root), "examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	var board struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			Datasource  source
			GridPos     struct{ H, W, X, Y int }
			FieldConfig struct {
				Defaults  struct{ Unit string }
				Overrides []any
			}
			Targets []struct {
				RefID              string
				Datasource         source
				Expr, LegendFormat string
			}
		}
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	if err := d.Decode(&board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || board.SchemaVersion < 30 || len(board.Panels) < 15 {
		t.Errorf("%q, %q, version %d, %d panels", board.UID, board.Title, board.SchemaVersion, len(board.Panels))
	}
	if l := board.Templating.List; len(l) != 1 || l[0].Name != "source" || l[0].Type != "datasource" || l[0].Query != "prometheus" {
		t.Errorf("the data source is chosen by %+v", l)
	}
	chosen := source{"prometheus", "${source}"}
	ids, titles, cells := make(map[int]bool), make(map[string]bool), make(map[[2]int]string)
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, p := range board.Panels {
		if p.ID <= 0 || ids[p.ID] || p.Title == "" || titles[p.Title] || p.Type != "timeseries" || p.Datasource != chosen || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %d, %q: %+v", p.ID, p.Title, p)
		}
		ids[p.ID], titles[p.Title] = true, true
		if g := p.GridPos; g.H < 1 || g.W < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%q is at %+v", p.Title, g)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("%q and %q overlap", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if target.Expr == "" || target.RefID == "" || refs[target.RefID] || target.Datasource != chosen {
				t.Errorf("%q: %+v", p.Title, target)
			}
			refs[target.RefID] = true
			for _, named := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
				by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(target.Expr)
				if by != nil && !strings.Contains(", "+by[1]+",", ", "+named[1]+",") {
					t.Errorf("%q: the legend has %s, and the query has by (%s)", p.Title, named[1], by[1])
				}
			}
		}
		if len(refs) == 0 {
			t.Errorf("%q asks nothing", p.Title)
		}
	}
}

// TestAlertsFireWhenTheyShould runs the tests of the alerts with Prometheus' own tool.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	root, _ := repository(t)
	promtool := func(args ...string) ([]byte, error) {
		c := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(root, "scripts", "prometheus.sh")}, args...)...)
		c.Dir = filepath.Join(root, "examples", "monitoring")
		return c.CombinedOutput()
	}
	if out, err := promtool("--install"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool is missing, and CI must have it: %v\n%s", err, out)
		}
		t.Skipf("promtool is missing: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := promtool(args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package docstest

import (
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

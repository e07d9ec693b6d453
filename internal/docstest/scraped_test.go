// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// expressions are those of the dashboard and of the alerts.
func expressions(t *testing.T, root string) (all []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Expr string `yaml:"expr"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	for file, parse := range map[string]func([]byte) error{
		"dashboard.json": func(b []byte) error { return json.Unmarshal(b, &board) },
		"alerts.yaml":    func(b []byte) error { return yaml.Unmarshal(b, &alerts) },
	} {
		text, err := fs.ReadFile(os.DirFS(root), "examples/monitoring/"+file)
		if err == nil {
			err = parse(text)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	return all
}

// TestPrometheusHasWhatTheMonitoringFilesAskFor has a real Prometheus read a daemon under load, and asks it
// for each expression and each metric in it.
func TestPrometheusHasWhatTheMonitoringFilesAskFor(t *testing.T) {
	root, _ := repository(t)
	if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(root, "scripts", "prometheus.sh"), "--install").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("prometheus is missing, and CI must have it: %v\n%s", err, out)
		}
		t.Skipf("prometheus is missing: %v\n%s", err, out)
	}
	dir := t.TempDir()
	limits, config := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(limits, []byte(`
defaults: {update_interval: 100ms}
limits:
  - {key: "auto", limit: 1/s, burst: 1}
  - {key: "moving", limit: 10/s, migrate: {from: even, to: elastic, mode: old-shadow-new}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), daemon.Config{
		Limits: limits, Listen: "127.0.0.1:0", Edge: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", TopKeys: daemon.DefaultTopKeys,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(config, fmt.Appendf(nil, "scrape_configs: [{job_name: headgate, scrape_interval: 500ms, scrape_timeout: 500ms, static_configs: [{targets: ['%s']}]}]", d.Admin()), 0o600); err != nil {
		t.Fatal(err)
	}
	at := addresstest.Free(t, 1)[0]
	server := exec.CommandContext(t.Context(), "prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at, "--log.level", "error")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	// query returns how many series answer.
	query := func(expr string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/api/v1/query?query="+url.QueryEscape(expr), http.NoBody)
		if err != nil {
			return 0, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, err
		}
		var found struct {
			Status string
			Data   struct{ Result []any }
		}
		if err := json.Unmarshal(text, &found); err != nil || found.Status != "success" {
			return 0, fmt.Errorf("%s: %s", expr, text)
		}
		return len(found.Data.Result), nil
	}
	all := expressions(t, root)
	if len(all) < 20 {
		t.Errorf("%d expressions", len(all))
	}
	names := regexp.MustCompile(`headgate_[a-z_]+`).FindAllString(strings.Join(all, " "), -1)
	var lacks string
	defer func() {
		if t.Failed() {
			t.Errorf("Prometheus lacks %s", lacks)
		}
	}()
	conn, err := grpc.NewClient(d.Edge(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	waittest.Until(t, "Prometheus has all metrics", func() bool {
		for _, key := range []string{"auto", "moving"} {
			request(t, http.MethodPost, "http://"+d.HTTP()+"/v1/allow", `{"key": "`+key+`"}`)
		}
		if _, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "auto"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if n, err := query(name); err != nil || n == 0 {
				lacks = fmt.Sprint(name, " ", err)
				return false
			}
		}
		return true
	})
	for _, expr := range all {
		if _, err := query(expr); err != nil {
			t.Error(err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// elsewhere begin the names of metrics that a daemon does not have: those of
// middleware, and of a client.
var elsewhere = []string{"httplimit_", "grpclimit_", "yarpclimit_", "quotaservice_client_"}

// TestADaemonExposesTheTable uses a daemon at each of its doors, and compares what
// Prometheus reads there with the table: names, kinds and labels.
func TestADaemonExposesTheTable(t *testing.T) {
	root, _ := repository(t)
	rows := documented(t, root)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte(`
defaults: {update_interval: 100ms, max_wait: 0s}
limits:
  - {key: "auto", limit: 1/h, burst: 1}
  - {key: "moving", limit: 10/s, migrate: {from: even, to: elastic, mode: old-shadow-new}}
  - {key: "leased", limit: 10/s, algorithm: fair-share}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	redis.LogTo(quiet)
	d, err := daemon.Start(t.Context(), daemon.Config{
		Limits: limits, Listen: "127.0.0.1:0", Edge: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Redis: daemon.Redis{Addresses: []string{"127.0.0.1:1"}}, TopKeys: daemon.DefaultTopKeys,
	}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(d.Edge(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var text string
	missing := func() (names []string) {
		for _, key := range []string{"auto", "moving", "none"} {
			request(t, http.MethodPost, "http://"+d.HTTP()+"/v1/allow", `{"key": "`+key+`"}`)
		}
		request(t, http.MethodPost, "http://"+d.HTTP()+"/v1/settle", `{"reservation": "none", "cost": 1}`)
		if _, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "auto"}); err != nil {
			t.Fatal(err)
		}
		if _, err := doormanpb.NewCapacityClient(conn).Discovery(t.Context(), &doormanpb.DiscoveryRequest{}); err != nil {
			t.Fatal(err)
		}
		text = request(t, http.MethodGet, "http://"+d.Admin()+"/metrics", "")
		for name, row := range rows {
			if row.kind == "counter" {
				name += "_total"
			}
			if !strings.Contains(text, "# TYPE headgate_"+name+" ") && !slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				names = append(names, name)
			}
		}
		return names
	}
	defer func() {
		if t.Failed() {
			t.Errorf("the daemon lacks %v", missing())
		}
	}()
	waittest.Until(t, "all metrics of the table are there", func() bool { return len(missing()) == 0 })

	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range slices.Sorted(maps.Keys(families)) {
		name, ours := strings.CutPrefix(full, "headgate_")
		if !ours {
			if !strings.HasPrefix(full, "go_") && !strings.HasPrefix(full, "process_") {
				t.Errorf("%s has no prefix", full)
			}
			continue
		}
		kind := strings.ToLower(families[full].GetType().String())
		if kind == "counter" {
			name = strings.TrimSuffix(name, "_total")
		}
		row, ok := rows[name]
		if !ok || row.kind != kind {
			t.Errorf("docs/metrics.md has no %s %s", kind, full)
			continue
		}
		for _, m := range families[full].GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName())
			}
			slices.Sort(labels)
			if !slices.Equal(labels, row.labels) {
				t.Errorf("docs/metrics.md: %s has the labels %q, not %q", full, labels, row.labels)
			}
		}
	}
}

// request is the body of an answer.
func request(t *testing.T, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

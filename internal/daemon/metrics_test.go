// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// scrape reads metrics, by name and labels.
func scrape(t *testing.T, client *http.Client) map[string]float64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://headgate/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", answer.StatusCode, text, err)
	}
	found := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndex(line, "} "); i >= 0 {
			name, value = line[:i+1], strings.TrimSpace(line[i+2:])
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil && name != "#" {
			found[name] = number
		}
	}
	return found
}

// What happens at each door, and behind it, is in the metrics.
func TestMetricsMove(t *testing.T) {
	redis.LogTo(quiet)
	c, log := config(t), new(notes)
	c.Limits = write(t, "limits.yaml", `
defaults: {update_interval: 100ms, max_wait: 0s, idle_after: 1h}
limits:
  - {key: "k:*", limit: 1/h, burst: 2, algorithm: elastic}
  - {key: "e:*", limit: 1000/s, algorithm: exact}
  - {key: "r:*", limit: 1000/s, algorithm: redis, fallback: open}
unmatched: deny
`)
	c.HTTP, c.Admin, c.Unix = "127.0.0.1:0", "127.0.0.1:0", socket(t)
	c.Redis = Redis{Addresses: []string{"127.0.0.1:1"}} // where nobody is
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if logged := log.take(); strings.Contains(logged, "cannot be read") {
			t.Error(logged)
		}
	}()
	client := httpTo(t, "tcp", d.HTTP())
	for key, want := range map[string]int{"k:a": 200, "e:a": 200, "r:a": 200, "x": 404} {
		if status, text := post(t, client, `{"key": "`+key+`"}`); status != want {
			t.Errorf("%s: %d %s", key, status, text)
		}
	}
	if status, _ := post(t, httpTo(t, "unix", c.Unix), `{"key": "k:b"`); status != 400 {
		t.Errorf("half a request: %d", status)
	}
	conn := quotaservicepb.NewQuotaServiceClient(dial(t, d.Edge()))
	for range 3 { // one less is left than there is asked for
		if _, err := conn.Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "a", TokensRequested: 1}); err != nil {
			t.Fatal(err)
		}
	}
	remote, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	if _, err := remote.Update(t.Context(), "me", &anypb.Any{TypeUrl: "type.example/none"}); err == nil {
		t.Error("nothing is a payload")
	}
	want := map[string]float64{
		`headgate_httpapi_requests_total{status="200"}`:                                                 3,
		`headgate_httpapi_requests_total{status="400"}`:                                                 1,
		`headgate_httpapi_requests_total{status="404"}`:                                                 1,
		`headgate_httpapi_decisions_total{reason="granted"}`:                                            3,
		`headgate_httpapi_decisions_total{reason="unmatched"}`:                                          1,
		`headgate_http_latency_seconds_count`:                                                           5,
		`headgate_http_latency_seconds_bucket{le="+Inf"}`:                                               5,
		`headgate_quotaservice_requests_total{status="ok"}`:                                             1,
		`headgate_quotaservice_requests_total{status="rejected_timeout"}`:                               2,
		`headgate_grpc_calls_total{code="OK",method="Allow",service="quotaservice.QuotaService"}`:       3,
		`headgate_grpc_latency_seconds_count{method="Allow",service="quotaservice.QuotaService"}`:       3,
		`headgate_grpc_calls_total{code="Unimplemented",method="Update",service="headgate.v1.Decider"}`: 1,
		`headgate_limiter_rejected_total{reason="unmatched",rule="(none)"}`:                             1,

		`headgate_limiter_keys`:                               3,
		`headgate_aggregator_takes_total`:                     1,
		`headgate_connections{door="edge"}`:                   2,
		`headgate_connections_refused_total{door="http"}`:     0,
		`headgate_edge_owners_unanswered_total`:               0,
		`headgate_doorman_requests_total{method="discovery"}`: 0,
	}
	moving := []string{ // Redis is asked again for what the fallback let through, and hosts report again and again
		"headgate_limiter_remote_failures_total", "headgate_redis_failed_total", "headgate_aggregator_updates_total", "go_goroutines",
	}
	var got map[string]float64
	prometheus := httpTo(t, "tcp", d.Admin())
	defer func() {
		for name := range want {
			if t.Failed() {
				t.Logf("%s: %v, want %v", name, got[name], want[name])
			}
		}
		for _, name := range moving {
			if t.Failed() {
				t.Logf("%s: %v, want more than 0", name, got[name])
			}
		}
	}()
	eventually(t, "all metrics are what they should be", func() bool {
		got = scrape(t, prometheus)
		for name, value := range want {
			if n, ok := got[name]; !ok || n != value {
				return false
			}
		}
		return !slices.ContainsFunc(moving, func(name string) bool { return got[name] == 0 })
	})
	for name := range got {
		rest, ours := strings.CutPrefix(name, "headgate_")
		if standard := strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_"); !ours && !standard || strings.HasPrefix(rest, "headgate_") {
			t.Errorf("%s: want the prefix once", name)
		}
	}
}

func TestMetricsAreOffAndKeepToTheirPort(t *testing.T) {
	c := config(t)
	c.HTTP = "127.0.0.1:0"
	d := start(t, c)
	if d.Admin() != "" {
		t.Errorf("metrics at %s", d.Admin())
	}
	if status, err := get(t, httpTo(t, "tcp", d.HTTP()), "/metrics"); status != 404 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	c = config(t)
	c.Admin = "127.0.0.1:0"
	d = start(t, c)
	for path, want := range map[string]int{"/metrics": 200, "/v1/keys/k": 404, "/": 404} {
		if status, err := get(t, httpTo(t, "tcp", d.Admin()), path); status != want || err != nil {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
}

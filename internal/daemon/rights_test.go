// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// governed is a daemon with a policy, TLS and a Unix socket.
func governed(t *testing.T, a *certtest.Authority, policy string) Config {
	t.Helper()
	c := secured(t, a)
	c.TLS.ClientCA = write(t, "programs.pem", a.PEM())
	c.Unix, c.Policy = socket(t), write(t, "policy.yaml", policy)
	return c
}

// sends is the status of a POST at the HTTP port by who shows a token.
func sends(t *testing.T, client *http.Client, url, token, body string) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

func TestAPolicySaysWhoMayUseWhichKeys(t *testing.T) {
	a := certtest.New(t)
	c := governed(t, a, fmt.Sprintf(`
callers:
  - {name: orders, certificates: [orders], use: [k, "k:*"], hold: ["k:*"], charge: ["k:*"]}
  - {name: web, tokens: [%q], use: ["k:web"]}
  - {name: me, uids: [%d], use: ["k:local"]}
`, callers.Hash("open sesame"), os.Getuid()))
	d := start(t, c)

	over := func(config *certtest.Authority, name string) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, a, config, name)}}
	}
	orders, stranger := over(a, "orders"), over(a, "stranger")
	url := "https://" + d.HTTP()
	for _, tt := range []struct {
		client            *http.Client
		path, token, body string
		status            int
	}{
		{orders, "/v1/allow", "", `{"key": "k:a"}`, 200},
		{orders, "/v1/reserve", "", `{"key": "k:a"}`, 200},
		{orders, "/v1/charge", "", `{"key": "k:a"}`, 200},
		{orders, "/v1/allow", "", `{"key": "other"}`, 403},
		{stranger, "/v1/allow", "", `{"key": "k:a"}`, 401},
		{stranger, "/v1/allow", "guess", `{"key": "k:a"}`, 401},
		{orders, "/v1/allow", "guess", `{"key": "k:a"}`, 401},
		{stranger, "/v1/allow", "open sesame", `{"key": "k:web"}`, 200},
		{stranger, "/v1/allow", "open sesame", `{"key": "k:a"}`, 403},
		{stranger, "/v1/charge", "open sesame", `{"key": "k:web"}`, 403},
		{stranger, "/v1/reserve", "open sesame", `{"key": "k:web"}`, 403},
		{stranger, "/v1/allow", "open sesame", `{"all_or_nothing": true, "requests": [{"key": "k:web"}, {"key": "k:a"}]}`, 403},
		{stranger, "/v1/allow", "open sesame", `{"all_or_nothing": true, "requests": [{"key": "k:web"}, {"key": "k:web"}]}`, 200},
	} {
		if code, text := sends(t, tt.client, url+tt.path, tt.token, tt.body); code != tt.status {
			t.Errorf("%s with %q, %s: %d %s", tt.path, tt.token, tt.body, code, text)
		}
	}
	_, text := sends(t, stranger, url+"/v1/allow", "open sesame", `{"requests": [{"key": "k:web"}, {"key": "k:a"}]}`)
	if !strings.Contains(text, `"forbidden"`) || !strings.Contains(text, `"granted"`) {
		t.Errorf("a batch of two, one of which is allowed: %s", text)
	}
	if _, err := fetch(t, d.HTTP(), trusting(t, a, a, "stranger")); err != nil {
		t.Errorf("health is for everybody: %v", err)
	}

	// The same at gRPC.
	edge := dialTLS(t, d.Edge(), trusting(t, a, a, "stranger"))
	asOrders := dialTLS(t, d.Edge(), trusting(t, a, a, "orders"))
	token := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer open sesame")
	quota := func(bucket string) *quotaservicepb.AllowRequest {
		return &quotaservicepb.AllowRequest{Namespace: "k", BucketName: bucket, TokensRequested: 1}
	}
	wants, priority, id := 1.0, int64(0), "me"
	lease := func(key string) *doormanpb.GetCapacityRequest {
		return &doormanpb.GetCapacityRequest{ClientId: &id, Resource: []*doormanpb.ResourceRequest{{ResourceId: &key, Priority: &priority, Wants: &wants}}}
	}
	expect := func(what string, err error, want codes.Code) {
		t.Helper()
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := quotaservicepb.NewQuotaServiceClient(edge).Allow(t.Context(), quota("a"))
	expect("a stranger", err, codes.Unauthenticated)
	_, err = quotaservicepb.NewQuotaServiceClient(edge).Allow(token, quota("web"))
	expect("a token", err, codes.OK)
	_, err = quotaservicepb.NewQuotaServiceClient(edge).Allow(token, quota("a"))
	expect("a token for another key", err, codes.PermissionDenied)
	_, err = doormanpb.NewCapacityClient(edge).GetCapacity(t.Context(), lease("k:a"))
	expect("a stranger's lease", err, codes.Unauthenticated)
	_, err = doormanpb.NewCapacityClient(asOrders).GetCapacity(t.Context(), lease("k:a"))
	expect("a lease", err, codes.OK)
	_, err = doormanpb.NewCapacityClient(asOrders).GetCapacity(t.Context(), lease("other"))
	expect("a lease of another key", err, codes.PermissionDenied)
	both := lease("other")
	both.Resource = append(both.Resource, lease("k:a").Resource...)
	if got, err := doormanpb.NewCapacityClient(asOrders).GetCapacity(t.Context(), both); err != nil || len(got.GetResponse()) != 1 || got.GetResponse()[0].GetResourceId() != "k:a" {
		t.Errorf("a lease of two keys, one of which is allowed: %v, %v", got, err)
	}
	_, err = doormanpb.NewCapacityClient(asOrders).ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: &id, ResourceId: []string{"", "k:a"}})
	expect("a release with an empty name", err, codes.OK)
	_, err = doormanpb.NewCapacityClient(edge).ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: &id, ResourceId: []string{""}})
	expect("a stranger's release", err, codes.Unauthenticated)
	_, err = grpc_health_v1.NewHealthClient(edge).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	expect("health", err, codes.OK)
	for name, want := range map[string]bool{"orders": true, "stranger": false} {
		client, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{TLS: trusting(t, a, a, name)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, client, "me"); (err == nil) != want {
			t.Errorf("a report by %s: %v", name, err)
		}
		_ = client.Close()
	}

	// And by who runs a program on this machine.
	unix := httpTo(t, "unix", c.Unix)
	for key, want := range map[string]int{"k:local": 200, "k:a": 403} {
		if code, text := post(t, unix, fmt.Sprintf(`{"key": %q}`, key)); code != want {
			t.Errorf("%s at the Unix socket: %d %s", key, code, text)
		}
	}
	conn, err := grpc.NewClient("unix:"+c.Unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), quota("local"))
	expect("gRPC at the Unix socket", err, codes.OK)
	_, err = quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), quota("a"))
	expect("gRPC at the Unix socket, another key", err, codes.PermissionDenied)
}

// Of a key that is traced, the daemon remembers who may not use it, over gRPC and HTTP.
func TestWhoMayNotUseAKeyIsInItsTrace(t *testing.T) {
	a := certtest.New(t)
	d := start(t, governed(t, a, `callers: [{name: orders, certificates: [orders], use: ["k:mine"]}]`))
	group := d.Node().Group()
	if !group.Trace("k:other", true) {
		t.Fatal("no room")
	}
	config := trusting(t, a, a, "orders")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	code, text := sends(t, client, "https://"+d.HTTP()+"/v1/allow", "", `{"key": "k:other"}`)
	if code != http.StatusForbidden || !strings.Contains(text, `its \"use\" in the policy has no pattern for it`) {
		t.Fatal(code, text)
	}
	conn, err := grpc.NewClient(d.Edge(), grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "other"}); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	decided, ok := explain.Decisions(group, d.Node().Limits().Current(), "k:other")
	if !ok || len(decided) != 2 {
		t.Fatalf("%+v", decided)
	}
	for _, one := range decided {
		if one.Allowed || one.Reason != "forbidden" || !strings.Contains(one.Because, `"orders" may not use this key: its "use" in the policy has no pattern for it`) {
			t.Errorf("%+v", one)
		}
	}
}

func TestAPolicyIsFollowed(t *testing.T) {
	a := certtest.New(t)
	c := governed(t, a, "callers: [{name: orders, certificates: [orders], use: [other]}]")
	d := start(t, c)
	conn := dialTLS(t, d.Edge(), trusting(t, a, a, "orders"))
	if err := allow(t, conn); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	replace := func(text string) {
		if err := os.WriteFile(c.Policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("callers: [{name: orders, certificates: [orders], use: ['*']}]")
	eventually(t, "the new policy is in force, on connections that are open too", func() bool { return allow(t, conn) == nil })
	eventually(t, "a good file is told", func() bool { return d.health().Checks["policy"].OK })
	replace("callers: 3")
	eventually(t, "a broken file is told", func() bool { return strings.Contains(d.health().Checks["policy"].Error, "mend the file") })
	if err := allow(t, conn); err != nil {
		t.Errorf("with a broken file: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// callers is how many a policy has beside the honest one. They may use keys of their own.
const callers = 5000

func tokenOf(caller int) string { return fmt.Sprintf("token-of-caller-%d", caller) }

// TestADaemonWithTokensUnderAttack has programs show tokens that are wrong in every way,
// many that nobody has, and those of many callers that may not use the key.
func TestADaemonWithTokensUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks a process for seconds")
	}
	t.Parallel()
	const token = "an-honest-token-that-nobody-else-has"
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token)))
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := []byte("callers:\n  - {name: honest, tokens: ['" + hash + "'], use: ['honest:*']}\n")
	for i := range callers {
		text = fmt.Appendf(text, "  - {name: c%d, tokens: ['sha256:%x'], use: ['c%d:*']}\n", i, sha256.Sum256([]byte(tokenOf(i))), i)
	}
	if err := os.WriteFile(policy, text, 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--policy", policy)
	d.token = token

	wrong := map[string]string{
		"none":                 "",
		"an empty one":         "Bearer ",
		"without a scheme":     token,
		"another scheme":       "Basic " + token,
		"the hash":             "Bearer " + hash,
		"all but the last":     "Bearer " + token[:len(token)-1],
		"one more":             "Bearer " + token + "x",
		"in capitals":          "Bearer " + strings.ToUpper(token),
		"two":                  "Bearer " + token + ", Bearer " + token,
		"a byte of the others": "Bearer " + token + "\x80",
		"a long one":           "Bearer " + strings.Repeat("x", 12<<10),
		"too long a one":       "Bearer " + strings.Repeat("x", 1<<20),
	}
	rounds := 5
	if testrun.Long() { // the server waits for half a second after each header that is too large
		rounds = 30
	}
	conn, err := grpc.NewClient(d.victim.Edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	quota := quotaservicepb.NewQuotaServiceClient(conn)
	var admitted, refused atomic.Int64
	attack := func(ctx context.Context, rounds int, show func(i int) string) {
		for i := range rounds {
			shown := show(i)
			answer, err := quota.Allow(metadata.AppendToOutgoingContext(ctx, "authorization", shown), &quotaservicepb.AllowRequest{Namespace: "honest", BucketName: "a", TokensRequested: 1})
			if err == nil && answer.GetStatus() == quotaservicepb.AllowResponse_OK {
				admitted.Add(1)
			}
			if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
				refused.Add(1)
			}
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.victim.HTTP+"/v1/allow", strings.NewReader(`{"key":"honest:b"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", shown)
			said, err := web.Do(r)
			if err != nil {
				continue // the header is too large, or none at all
			}
			switch said.StatusCode {
			case http.StatusOK:
				admitted.Add(1)
			case http.StatusUnauthorized, http.StatusForbidden:
				refused.Add(1)
			}
			_, _ = io.Copy(io.Discard, said.Body)
			said.Body.Close()
		}
	}
	began, over := time.Now(), make(chan struct{})
	go func() {
		defer close(over)
		var attacks sync.WaitGroup
		for _, shown := range wrong {
			attacks.Go(func() { attack(t.Context(), rounds, func(int) string { return shown }) })
		}
		// Each asks over gRPC and over HTTP.
		many := 1000 * rounds / 5
		attacks.Go(func() { attack(t.Context(), many, func(i int) string { return fmt.Sprintf("Bearer %064d", i) }) })
		attacks.Go(func() { attack(t.Context(), many, func(i int) string { return "Bearer " + tokenOf(i%callers) }) })
		attacks.Wait()
	}()
	calls := d.honest(t, 1, over)
	took := time.Since(began)
	_, most := d.memory(t)
	t.Logf("memory: %d MiB at most; attacked for %v; honest p99 %v (%d calls)", most, took.Round(time.Millisecond), p99(calls), len(calls))
	if most > mostMemory {
		t.Errorf("the daemon had %d MiB, more than %d", most, mostMemory)
	}
	if n := admitted.Load(); n > 0 {
		t.Errorf("%d requests with tokens that are wrong, or of others, were admitted", n)
	}
	if n := refused.Load(); n < int64(1000*rounds/5)*4 {
		t.Errorf("only %d requests were refused for their tokens", n)
	}
	d.checkLog(t, began)
}

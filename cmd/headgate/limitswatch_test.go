// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

func TestWatchesThatMakeNoSense(t *testing.T) {
	on := []string{"--limits-db", t.TempDir(), "apply", written(t, "limits.yaml", shop), "-m", "x"}
	for want, flags := range map[string][]string{
		"as in 5%":               {"--watch", "1m", "--roll-back-above", "5"},
		"as in --watch 5m":       {"--roll-back-above", "5%"},
		"at most 1h0m0s":         {"--watch", "2h"},
		"say which decider":      {"--watch", "1m"},
		"a percentage below 100": {"--watch", "1m", "--roll-back-above", "NaN%"},
		"percentages that grow":  {"--enforce", "10,5,100"},
		"from above 0 to 100":    {"--enforce", "0,100"},
		"the last step is 100":   {"--enforce", "10,50"},
		"with --every":           {"--enforce", "10,100", "--watch", "1m"},
		"from 5s to 1h0m0s":      {"--enforce", "10,100", "--every", "1s"},
		"in steps: say":          {"--enforce", "10,100"},
	} {
		refused(t, want, append(on, flags...)...)
	}
}

// A change that rejects too much is taken back while it is watched, and one that does not stays.
func TestAChangeThatRejectsTooMuchIsTakenBack(t *testing.T) {
	if testing.Short() {
		t.Skip("watches a change for seconds")
	}
	t.Parallel()
	db := t.TempDir()
	file, token := operatorsFile(t)
	const wide = "limits:\n  - {key: \"k:*\", limit: 100000/s}\n  - {key: \"other:*\", limit: 5/s}\n"
	must(t, "apply", "--limits-db", db, written(t, "limits.yaml", wide), "-m", "first limits")
	c := newMemberCluster(t, 2, false, "", "--limits-db", db, "--operators", file)

	// Programs ask for some thousand tokens a second, and on a busy machine for enough.
	ctx, end := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	defer programs.Wait()
	defer end()
	for _, n := range c.nodes {
		conn, err := grpc.NewClient(n.edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 8 {
			programs.Go(func() {
				door, tick := quotaservicepb.NewQuotaServiceClient(conn), time.NewTicker(10*time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					_, _ = door.Allow(ctx, &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "1", TokensRequested: 5, MaxWaitTimeOverride: true})
					select {
					case <-ctx.Done():
					case <-tick.C:
					}
				}
			})
		}
	}
	apply := func(text, message string, args ...string) (out string, err error) {
		out, said, err := execute(t, append([]string{"limits", "apply", written(t, "limits.yaml", text), "-m", message, "--yes", "--admin", c.admins[0], "--token-file", token}, args...)...)
		t.Logf("%s\n%s%s", message, out, said)
		return out, err
	}

	tight := strings.Replace(wide, "100000/s", "1/s, burst: 10", 1)
	if _, err := apply(tight, "1/s is enough", "--watch", "1m", "--roll-back-above", "20%"); err == nil || !strings.Contains(err.Error(), "version 2 is taken back, and version 3 has the limits of version 1") {
		t.Fatalf("a change that rejects nearly all: %v", err)
	}
	expectText(t, "history", must(t, "history", "--limits-db", db), "version 2 is taken back: ", "1/s is enough")
	if got := must(t, "export", "--limits-db", db); got != wide {
		t.Errorf("the limits are\n%s", got)
	}

	out, err := apply(strings.Replace(wide, "100000/s", "50000/s", 1), "50000/s is enough", "--watch", "4s", "--roll-back-above", "20%")
	if err != nil || !strings.Contains(out, "version 4 stays") {
		t.Errorf("a change that rejects nothing: %v, %s", err, out)
	}

	// Each event costs more than the burst then.
	if _, err := apply(strings.Replace(wide, "100000/s", "50000/s, burst: 4", 1), "small", "--watch", "1m", "--roll-back-above", "20%"); err == nil || !strings.Contains(err.Error(), "version 5 is taken back, and version 6 has the limits of version 4") {
		t.Errorf("a change of the burst that rejects all: %v", err)
	}

	// In steps: the first rejects a tenth, which is little enough, and the second all.
	good := must(t, "export", "--limits-db", db)
	steps := []string{"--every", "6s", "--roll-back-above", "40%"}
	_, err = apply(tight, "1/s in steps", append(steps, "--enforce", "10,100")...)
	if err == nil || !strings.Contains(err.Error(), "version 8 is taken back, and version 9 has the limits of version 6") {
		t.Errorf("a change whose second step rejects nearly all: %v", err)
	}
	expectText(t, "history", must(t, "history", "--limits-db", db), "1/s in steps (step 1 of 2: enforced for 10%)", "1/s in steps (step 2 of 2: enforced for 100%)", "version 8 is taken back: ")
	if got := must(t, "export", "--limits-db", db); got != good {
		t.Errorf("the limits are\n%s", got)
	}

	mild := strings.Replace(wide, "100000/s", "40000/s", 1)
	out, err = apply(mild, "40000/s in steps", append(steps, "--enforce", "50%,100%")...)
	if err != nil || !strings.Contains(out, "version 10 stays") || !strings.Contains(out, "version 11 stays") {
		t.Errorf("a change that rejects nothing, in steps: %v, %s", err, out)
	}
	if got := must(t, "export", "--limits-db", db); got != mild {
		t.Errorf("after the last step, the limits are\n%s", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// must runs headgate limits with args, which succeeds, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, said, err := execute(t, append([]string{"limits"}, args...)...)
	if err != nil {
		t.Fatalf("limits %v: %v\n%s", args, err, said)
	}
	return out
}

// A daemon follows what the command line stores, which needs no daemon.
func TestServeFollowsADatabase(t *testing.T) {
	t.Parallel()
	limits := func(orders string) string {
		return runtest.File(t, "limits.yaml", "limits:\n  - {key: orders, limit: "+orders+"}\n  - {key: mail, limit: 5/s}\n")
	}
	db := t.TempDir()
	_, _, err := execute(t, "serve", "--limits-db", db, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0")
	if err == nil || !strings.Contains(err.Error(), "headgate limits apply --limits-db "+db) {
		t.Errorf("without limits: %v", err)
	}
	must(t, "apply", "--limits-db", db, limits("100/s"), "-m", "first limits")
	p := serving(t, "--limits-db", db)
	p.ready(t)
	must(t, "apply", "--limits-db", db, limits("200/s"), "-m", "for the sale")
	eventually(t, "the change is in force", func() bool {
		return strings.Contains(p.logged(), `name="version 2"`) && strings.Contains(p.logged(), "limit 100/s → 200/s")
	})
	must(t, "rollback", "--limits-db", db)
	eventually(t, "the rollback is in force", func() bool { return strings.Contains(p.logged(), "limit 200/s → 100/s") })
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	must(t, "rollback", "--limits-db", db, "2") // while no daemon runs
	if out, said, err := execute(t, "serve", "--limits-db", db, "--check"); err != nil || !strings.HasPrefix(out, "version 4: good, rules: 2") {
		t.Errorf("--check: %v, %s%s", err, out, said)
	}
}

// An operator overrides a limit of daemons, which end it by themselves, and resets a bucket.
func TestAnOperatorOverridesAndResets(t *testing.T) {
	t.Parallel()
	db := t.TempDir()
	file, token := operatorsFile(t)
	must(t, "apply", "--limits-db", db, runtest.File(t, "limits.yaml", "limits:\n  - {key: \"k*\", limit: 1/h, burst: 5, algorithm: exact}\n"), "-m", "first limits")
	c := newMemberCluster(t, 2, false, "", "--limits-db", db, "--operators", file)
	run := func(i int, args ...string) string {
		t.Helper()
		out, said, err := execute(t, append(args, "--admin", c.admins[i], "--token-file", token)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, said)
		}
		return out
	}
	var doors []quotaservicepb.QuotaServiceClient
	for _, n := range c.nodes {
		conn, err := grpc.NewClient(n.edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		doors = append(doors, quotaservicepb.NewQuotaServiceClient(conn))
	}
	allowed := func(i int) (n int) {
		for range 20 {
			answer, err := doors[i].Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "1", TokensRequested: 1, MaxWaitTimeOverride: true})
			if err == nil && answer.GetStatus() == quotaservicepb.AllowResponse_OK {
				n++
			}
		}
		return n
	}
	eventually(t, "the burst is used", func() bool { return allowed(0) == 0 })
	// Before the members found each other, each had a bucket of its own. What these let through is
	// charged later, possibly after a reset, so a reset is repeated until it has an effect.
	eventually(t, "a reset lets a burst through", func() bool {
		_, _, err := execute(t, "limits", "reset", "k:1", "--admin", c.admins[1], "--token-file", token)
		return err == nil && allowed(0) == 5
	})
	bypass := func(d time.Duration) error {
		_, _, err := execute(t, "limits", "bypass", "k*", "--until", time.Now().Add(d).Format(time.RFC3339), "-m", "it is wrong", "--admin", c.admins[0], "--token-file", token)
		return err
	}
	if err := bypass(time.Hour); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		eventually(t, "everything is let through", func() bool { return allowed(i) == 20 })
	}
	runtest.Expect(t, "explain", run(1, "explain", "k:1"), "everything is let through: bypass until ", " by ada: it is wrong")
	// On a slow machine it may be over before the command sends it, which is an error, or before it is
	// in force, so that nothing ends: the next is longer.
	for told, long := false, 2*time.Second; !told; long *= 2 {
		ends := time.Now().Add(long)
		if err := bypass(long); err != nil { // in place of the one before
			if long < time.Minute {
				continue
			}
			t.Fatal(err)
		}
		for i := range c.nodes {
			eventually(t, "the bypass has ended", func() bool { return allowed(i) == 0 })
		}
		// The limits follow the clock, and the event a timer.
		eventually(t, "the end of the bypass is told", func() bool {
			told = strings.Contains(run(1, "events", "--past"), `override of "k*" has ended: bypass until `)
			return told || long < time.Minute && time.Since(ends) > 10*time.Second
		})
	}
	runtest.Expect(t, "events", run(1, "events", "--past"), "made the bucket of k:1 full again")
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
	must(t, "apply", "--limits-db", db, runtest.File(t, "limits.yaml", wide), "-m", "first limits")
	c := newMemberCluster(t, 2, false, "", "--limits-db", db, "--operators", file)

	// Programs ask for some thousand tokens a second, and on a busy machine for enough.
	ctx, end := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	defer programs.Wait()
	defer end()
	ask := func(door quotaservicepb.QuotaServiceClient) (passes bool) {
		answer, err := door.Allow(ctx, &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "1", TokensRequested: 5, MaxWaitTimeOverride: true})
		return err == nil && answer.GetStatus() == quotaservicepb.AllowResponse_OK
	}
	var doors []quotaservicepb.QuotaServiceClient
	for _, n := range c.nodes {
		conn, err := grpc.NewClient(n.edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		door := quotaservicepb.NewQuotaServiceClient(conn)
		doors = append(doors, door)
		for range 8 {
			programs.Go(func() {
				tick := time.NewTicker(25 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					ask(door)
					select {
					case <-ctx.Done():
					case <-tick.C:
					}
				}
			})
		}
	}
	command := func(text, message string, args ...string) []string {
		// A daemon that is slow still rejects by the change before.
		for _, door := range doors {
			passed := 0
			eventually(t, "events pass", func() bool {
				if passed++; !ask(door) {
					passed = 0
				}
				return passed == 10
			})
		}
		return append([]string{"limits", "apply", runtest.File(t, "limits.yaml", text), "-m", message, "--yes", "--admin", c.admins[0], "--token-file", token}, args...)
	}
	apply := func(text, message string, args ...string) (out string, err error) {
		out, said, err := execute(t, command(text, message, args...)...)
		t.Logf("%s\n%s%s", message, out, said)
		return out, err
	}

	tight := strings.Replace(wide, "100000/s", "1/s, burst: 10", 1)
	if _, err := apply(tight, "1/s is enough", "--watch", "1m", "--roll-back-above", "20%"); err == nil || !strings.Contains(err.Error(), "version 2 is taken back, and version 3 has the limits of version 1") {
		t.Fatalf("a change that rejects nearly all: %v", err)
	}
	runtest.Expect(t, "history", must(t, "history", "--limits-db", db), "version 2 is taken back: ", "1/s is enough")
	if got := must(t, "export", "--limits-db", db); got != wide {
		t.Errorf("the limits are\n%s", got)
	}

	out, err := apply(strings.Replace(wide, "100000/s", "50000/s", 1), "50000/s is enough", "--watch", "4s", "--roll-back-above", "20%")
	if err != nil || !strings.Contains(out, "version 4 stays") {
		t.Errorf("a change that rejects nothing: %v, %s", err, out)
	}

	// Each event costs more than the burst then. Nobody reads what the command says, and its terminal is closed.
	guard := exec.Command(testrun.Headgate(t), command(strings.Replace(wide, "100000/s", "50000/s, burst: 4", 1), "small", "--watch", "1m", "--roll-back-above", "20%")...)
	says, err := guard.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(says); lines.Scan() && !strings.HasPrefix(lines.Text(), "watching for "); {
	}
	says.Close()
	if err := guard.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if err := guard.Wait(); guard.ProcessState.ExitCode() != 1 {
		t.Errorf("a command without a reader and without a terminal: %v", err)
	}
	runtest.Expect(t, "history", must(t, "history", "--limits-db", db), "version 5 is taken back: ")

	// In steps: the first rejects a tenth, which is little enough, and the second all.
	good := must(t, "export", "--limits-db", db)
	steps := []string{"--every", "6s", "--roll-back-above", "40%"}
	_, err = apply(tight, "1/s in steps", append(steps, "--enforce", "10,100")...)
	if err == nil || !strings.Contains(err.Error(), "version 8 is taken back, and version 9 has the limits of version 6") {
		t.Errorf("a change whose second step rejects nearly all: %v", err)
	}
	runtest.Expect(t, "history", must(t, "history", "--limits-db", db), "1/s in steps (step 1 of 2: enforced for 10%)", "1/s in steps (step 2 of 2: enforced for 100%)", "version 8 is taken back: ")
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

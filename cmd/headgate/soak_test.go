// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

var soakFor = flag.Duration("soak", 0, "for how long TestASoak keeps its cluster under load; 0 is 12 seconds, and 20 in the long form")

// soakRules have a limit that changes.
func soakRules(limit int) string {
	return fmt.Sprintf(`
defaults: {update_interval: 200ms, lease: 2s, idle_after: 1s}
limits:
  - {key: "k:*", limit: %d/s, burst: 100}
  - {key: "x:*", limit: 400/s, burst: 100, algorithm: exact}
  - {key: "auto:*", limit: %[1]d/s, burst: 100, algorithm: auto}
  - {key: "slots:*", limit: 20 in-flight, algorithm: fair-share}
`, limit)
}

// Three daemons keep their memory, goroutines and files while programs come with ever new keys,
// the limits change, and a fourth daemon comes and goes. Nothing is logged as an error.
func TestASoak(t *testing.T) {
	if testing.Short() {
		t.Skip("keeps processes under load")
	}
	t.Parallel()
	lasts, samples, between := *soakFor, 40, 2*time.Millisecond // between two calls of a program
	switch {
	case lasts > 0 && lasts <= time.Minute:
		between = 5 * time.Millisecond
	case lasts > 0:
	case testrun.Long():
		lasts = 20 * time.Second
	default:
		lasts, samples, between = 12*time.Second, 24, 25*time.Millisecond
	}
	waited := waits()
	c := newMemberCluster(t, 3, true, soakRules(400))
	free := addresstest.Free(t, 4)
	args := slices.Clone(c.nodes[0].args)
	for i, arg := range args {
		switch arg {
		case "--admin":
			args[i+1] = free[2]
		case "--gossip-address":
			args[i+1] = free[3]
		}
	}
	guest := &treeNode{t: t, cluster: free[0], edge: free[1], args: args}

	running, cancel := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	end := func() {
		cancel()
		programs.Wait()
	}
	defer end()
	var moves atomic.Int64 // of the guest
	for i, n := range c.nodes {
		programs.Go(func() { soakProgram(running, t, n.edge, i, between, &moves) })
	}
	programs.Go(func() { soakClient(running, t, c.edges(-1), c.limits) })
	every := func(d time.Duration, do func(i int)) {
		programs.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for i := 1; ; i++ {
				select {
				case <-tick.C:
					do(i)
				case <-running.Done():
					return
				}
			}
		})
	}
	every(time.Second, func(i int) { write(t, c.limits, soakRules(400+i%2*400)) })
	every(4*time.Second, func(int) {
		moves.Add(1)
		if guest.process == nil {
			guest.start()
		} else {
			guest.stop()
		}
	})

	seen := make([][]vitals, len(c.nodes))
	sample := time.NewTicker(lasts / time.Duration(samples))
	defer sample.Stop()
	// A busy machine takes fewer samples in that time, and goes on until there are enough.
	for began := time.Now(); time.Since(began) < lasts || len(seen[0]) < samples/2; {
		<-sample.C
		for i, n := range c.nodes {
			seen[i] = append(seen[i], vitalsOf(t, n.process.cmd.Process.Pid, c.admins[i]))
		}
	}
	end()
	for i, n := range c.nodes {
		quarter := len(seen[i]) / 4
		before, after := middle(seen[i][quarter:2*quarter]), middle(seen[i][len(seen[i])-quarter:])
		t.Logf("%s: %v in the second quarter, %v in the last", n.edge, before, after)
		for _, grown := range []struct {
			what          string
			before, after int
			some          int
		}{
			{"bytes on the heap", before.heap, after.heap, 4 << 20},
			{"bytes in memory", before.resident, after.resident, 16 << 20},
			{"goroutines", before.goroutines, after.goroutines, 20},
			{"files", before.files, after.files, 10},
		} {
			if grown.after > grown.before+grown.before/10+grown.some {
				t.Errorf("%s: from %d %s to %d", n.edge, grown.before, grown.what, grown.after)
			}
		}
		for line := range strings.Lines(n.process.logged()) {
			// A daemon that waits for a processor hears no other in time.
			late := strings.Contains(line, "lost more deciders at once") && waited.starved()
			if strings.Contains(line, "level=ERROR") && !late {
				t.Errorf("%s: %s", n.edge, line)
			}
		}
	}
}

// soakProgram asks an edge for tokens of keys, some of them new each second, until ctx ends. Of
// its calls one in a hundred may fail, and one each time that keys move.
func soakProgram(ctx context.Context, t *testing.T, edge string, number int, between time.Duration, moves *atomic.Int64) {
	conn, err := grpc.NewClient(edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	door, tick := quotaservicepb.NewQuotaServiceClient(conn), time.NewTicker(between)
	defer tick.Stop()
	asked, failed := 0, 0
	for ; ; asked++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Logf("%s: %d of %d calls failed", edge, failed, asked)
			if failed > asked/100+int(moves.Load()) {
				t.Errorf("%s: %d of %d calls failed", edge, failed, asked)
			}
			return
		}
		name := fmt.Sprint(asked % 20)
		if asked%2 == 0 {
			name = fmt.Sprintf("new-%d-%d", number, asked/10)
		}
		_, err := door.Allow(ctx, &quotaservicepb.AllowRequest{
			Namespace: []string{"k", "x", "auto"}[asked%3], BucketName: name, TokensRequested: 1, MaxWaitTimeOverride: true,
		})
		if err != nil && ctx.Err() == nil {
			failed++
		}
	}
}

// soakClient limits by package client, with new keys each second, until ctx ends.
func soakClient(ctx context.Context, t *testing.T, edges []string, limits string) {
	limited, err := client.New(client.Config{Addresses: edges, Hosts: 3}, file.New(limits), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Error(err)
		return
	}
	defer limited.Close()
	for i := 0; ctx.Err() == nil; i++ {
		drive([]*client.Client{limited}, []string{"k:1", "auto:1", fmt.Sprint("k:client-", i)}, 300, time.Second)
	}
}

// vitals are what must not grow.
type vitals struct{ heap, resident, goroutines, files int }

func (v vitals) String() string {
	return fmt.Sprintf("%.1f MiB on the heap, %.1f MiB in memory, %d goroutines, %d files", float64(v.heap)/(1<<20), float64(v.resident)/(1<<20), v.goroutines, v.files)
}

// middle is the median of each.
func middle(all []vitals) (v vitals) {
	of := func(get func(v vitals) int) int {
		var sorted []int
		for _, one := range all {
			sorted = append(sorted, get(one))
		}
		slices.Sort(sorted)
		return sorted[len(sorted)/2]
	}
	v.heap, v.resident = of(func(v vitals) int { return v.heap }), of(func(v vitals) int { return v.resident })
	v.goroutines, v.files = of(func(v vitals) int { return v.goroutines }), of(func(v vitals) int { return v.files })
	return v
}

var (
	goroutineTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapTotal      = regexp.MustCompile(`# HeapAlloc = (\d+)`)
)

// vitalsOf are those of a process, its heap after a collection. Where there is no /proc, it
// knows nothing of files and resident memory.
func vitalsOf(t *testing.T, pid int, admin string) (v vitals) {
	t.Helper()
	figure := func(path string, in *regexp.Regexp) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/debug/pprof/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		found := in.FindSubmatch(text)
		if err != nil || found == nil {
			t.Fatalf("%s: %v, %.100s", path, err, text)
		}
		n, _ := strconv.Atoi(string(found[1]))
		return n
	}
	v.heap, v.goroutines = figure("heap?gc=1&debug=1", heapTotal), figure("goroutine?debug=1", goroutineTotal)
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		v.files = len(files)
	}
	if f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if kib, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
				n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
				v.resident = n << 10
			}
		}
	}
	return v
}

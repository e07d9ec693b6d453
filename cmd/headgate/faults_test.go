// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/markers"
	"github.com/headgate/headgate/internal/testrun"
)

// faultRules are the limits of the clusters to which faults are done. Programs decide about
// m in memory, and want much less than it allows.
const faultRules = `
defaults: {update_interval: 500ms, lease: 3s}
limits:
  - {key: "k:*", limit: 50/s, burst: 25}
  - {key: "x:*", limit: 50/s, burst: 25, algorithm: exact}
  - {key: "m:*", limit: 1000000/s, algorithm: elastic}
`

const (
	faultLimit, faultBurst = 50, 25
	faultLease             = 3 * time.Second
)

// fault is one row of the table in docs/reliability.md.
type fault struct {
	name  string // of the subtest
	what  string
	bound string
	// run does the fault, and returns what it measured. It fails t where the bound is broken.
	run func(t *testing.T) *findings
}

// findings are what a fault did. A figure that was not measured is empty.
type findings struct {
	admitted string // events, beside what the limit admits
	failed   string // calls
	served   string // after how long
	memory   string // p99.9 of decisions in memory, with the fault and without
}

// faults are the rows, in the order of the table.
var faults = []fault{
	{
		"Hang", "an owner hangs (`SIGSTOP`) and goes on (`SIGCONT`)",
		"its keys are decided by another in 2 s, and other daemons fail no call after that; one burst more for each of the two changes of owner",
		func(t *testing.T) *findings { return hang(t, 20*time.Second) },
	},
	{
		"HangMinute", "an owner hangs for a minute, which is longer than others remember that it was there",
		"as an owner that hangs",
		func(t *testing.T) *findings { return hang(t, time.Minute) },
	},
	{
		"Pause", "an owner hangs for a second, five times in a row",
		"other daemons fail no call; one burst more for each change of owner",
		pause,
	},
	{
		"Restarts", "an owner is killed (`kill -9`) and starts again after two seconds, five times in a row",
		"one burst more for each change of owner; from the third time on, all daemons have it wait alike, itself too",
		restarts,
	},
	{
		"Silent", "an owner gossips, accepts connections, and never answers",
		"its keys are decided by another in 5 s; calls wait for twice `ask_timeout` at most until then, and none fails",
		func(t *testing.T) *findings { return badOwner(t, false, silent) },
	},
	{
		"SilentListed", "the same, in a fixed list with health checks",
		"its keys are decided by another in 2 s; no call fails",
		func(t *testing.T) *findings { return badListed(t, silent) },
	},
	{
		"Garbage", "an owner gossips, and answers with random bytes",
		"as an owner that never answers",
		func(t *testing.T) *findings { return badOwner(t, false, garbage) },
	},
	{
		"Nonsense", "an owner speaks the protocol, and answers what is out of range, does not fit, or is cut short",
		"calls wait for twice `ask_timeout` at most, and none fails; after a lease, each daemon that is left admits its even part",
		func(t *testing.T) *findings { return badOwner(t, true, nonsense) },
	},
	{
		"Partition", "one of three daemons is cut off from the others, both ways",
		"the others decide its keys in 2 s; no call fails anywhere; 1.33 times the limit, and two bursts and 2 s of the limit more until both sides have noticed; once healed, all is as before",
		partition,
	},
	{
		"PartitionOneWay", "what one of three daemons sends is lost, and it hears the others",
		"as both ways",
		partitionOneWay,
	},
	{
		"Loss", "30% of the packets between daemons are lost",
		"no call fails; twice the limit while daemons disagree about owners",
		loss,
	},
	{
		"Latency", "each packet between daemons takes 500 ms",
		"no call fails; twice the limit while daemons disagree about owners",
		latency,
	},
	{
		"Liar", "a program with `limiter/client`'s protocol reports, in ten names, demand without end, and uses nothing",
		"its own keys: others get less, and never more than the limit; no call fails; other keys are not touched; when it stops, all is as before after a lease",
		liar,
	},
	{
		"FullDisk", "the disk with the database of limits and `--data` is full; a daemon is killed and starts again",
		"no decision notices; a change of limits is refused and stores nothing; the daemon starts; with room again, the next change is in force in 5 s",
		fullDisk,
	},
	{
		"Load", "ten times the load: twenty times the limit is asked for",
		"at most the limit; no call fails",
		tenTimes,
	},
	{
		"Expired", "the certificate of all daemons expires, at edges and between daemons, and is replaced in its file later",
		"what is connected fails no call; new connections are served again 2 s after the file is replaced",
		expired,
	},
	{
		"ClockSteps", "the wall clock of one daemon is set an hour ahead, then two hours back, then right",
		"nothing changes: at most the limit; no call fails; it stays on every ring",
		clockSteps,
	},
}

// TestFaults does to real daemons what networks, disks and other hosts do. Its short form
// takes some seconds. make chaos runs the long one, with -strict, and holds the figures.
func TestFaults(t *testing.T) {
	if testing.Short() || !testrun.Long() && !*strict && !*update {
		t.Skip("starts many processes: HEADGATE_LONG=1 or -strict runs it")
	}
	testrun.NotUnderRace(t, "the daemons are other processes")
	if !*strict {
		t.Parallel()
	}
	few := make(chan struct{}, 5) // rows at a time
	var mu sync.Mutex             // protects found
	found := make(map[string]*findings)
	t.Run("all", func(t *testing.T) {
		for _, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				if !*strict {
					t.Parallel()
				}
				few <- struct{}{}
				defer func() { <-few }()
				one := f.run(t)
				t.Logf("admitted %s; failed %s; served %s; in memory %s", one.admitted, one.failed, one.served, one.memory)
				mu.Lock()
				defer mu.Unlock()
				if !t.Failed() {
					found[f.name] = one
				}
			})
		}
	})
	if *update {
		writeFaults(t, found)
	}
}

const reliability = "../../docs/reliability.md"

const faultsHead = "| what happens | bound | admitted, of what the limit admits | calls that failed | decided again after | p99.9 in memory, and without the fault | row of `TestFaults` |\n|---|---|---|---|---|---|---|\n"

// row is f in the table, without what was measured, and then with it.
func (f fault) row() (begins, ends string) {
	return fmt.Sprintf("| %s | %s |", f.what, f.bound), fmt.Sprintf(" | `%s` |", f.name)
}

// writeFaults puts what was found into the table, and leaves the other rows.
func writeFaults(t *testing.T, found map[string]*findings) {
	t.Helper()
	text, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	old, err := markers.Find(string(text), "make chaos", "faults")
	if err != nil {
		t.Fatal(err)
	}
	table := faultsHead
	for _, f := range faults {
		begins, ends := f.row()
		if one := found[f.name]; one != nil {
			table += fmt.Sprintf("%s %s | %s | %s | %s%s\n", begins, dash(one.admitted), dash(one.failed), dash(one.served), dash(one.memory), ends)
			continue
		}
		for line := range strings.Lines(old) {
			if strings.HasSuffix(line, ends+"\n") {
				table += line
			}
		}
	}
	next, err := markers.Replace(string(text), "make chaos", "faults", table)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(reliability, []byte(next), 0o644); err != nil {
		t.Fatal(err)
	}
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// TestTheDocsHaveAllFaults compares the table's rows with those that are tested.
func TestTheDocsHaveAllFaults(t *testing.T) {
	text, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	table, err := markers.Find(string(text), "make chaos", "faults")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(table, faultsHead), "\n"), "\n")
	if len(lines) != len(faults) {
		t.Fatalf("docs/reliability.md has %d faults, %d are tested: make chaos writes the table", len(lines), len(faults))
	}
	for i, f := range faults {
		if begins, ends := f.row(); !strings.HasPrefix(lines[i], begins) || !strings.HasSuffix(lines[i], ends) {
			t.Errorf("docs/reliability.md has %q for %s: make chaos writes the table", lines[i], f.name)
		}
	}
}

// lasting is how long a fault lasts: shorter in CI.
func lasting(short, long time.Duration) time.Duration {
	if *strict {
		return long
	}
	return short
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// waiting is how long the processes of these tests had been ready to run, and waited for a
// processor, at a time. What needs a machine that runs them at once is not held to figures
// where they wait.
type waiting struct {
	at time.Time
	by map[int]time.Duration // the process id; nil: the system does not say
}

// waits returns how long the processes of these tests have waited so far: this one, and those
// that it started.
func waits() waiting {
	stalled(time.Now()) // watches from now on
	w := waiting{at: time.Now()}
	own := os.Getpid()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return w
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // the state, and the parent
		if pid != own && (len(fields) < 2 || fields[1] != strconv.Itoa(own)) {
			continue
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is right
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			var ran, waited time.Duration
			if err != nil {
				continue
			}
			if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
				continue
			}
			if w.by == nil {
				w.by = make(map[int]time.Duration)
			}
			w.by[pid] += waited
		}
	}
	return w
}

// starved reports whether the threads of a process of these tests have together waited for two
// fifths of the time since w, or more: with no other load on two processors, they wait for a tenth
// to a third. It is true too where a processor stood still, and where the system does not say.
func (w waiting) starved() bool {
	if stalled(w.at) {
		return true
	}
	now := waits()
	for pid, waited := range now.by {
		if waited-w.by[pid] > now.at.Sub(w.at)*2/5 {
			return true
		}
	}
	return now.by == nil
}

// turns is held by the test that begins.
var turns sync.Mutex

// inTurn returns when the tests that have begun leave something of the processors, or after ten
// seconds: on a slow machine, fewer run side by side. A test calls it before it starts a cluster.
func inTurn() {
	turns.Lock()
	defer turns.Unlock()

	for began := time.Now(); time.Since(began) < 10*time.Second; {
		looked := time.Now()
		stalled(looked) // watches from now on
		watch(500 * time.Millisecond)
		if !stalled(looked) {
			return
		}
	}
}

// A process that competes with others for the processors waits, and one that sleeps does not.
func TestStarvedProcessesAreSeen(t *testing.T) {
	before := waits()
	if before.by == nil {
		t.Skip("this system does not say how long processes wait for a processor")
	}
	if waited, ok := before.by[os.Getpid()]; !ok || waited <= 0 {
		t.Errorf("this process has waited for %v, %t", waited, ok)
	}
	late := waiting{at: before.at.Add(-time.Hour), by: before.by}
	if late.starved() && !stalled(late.at) {
		t.Error("a process that waited for less than two fifths of the time counts as starved")
	}
	for pid := range before.by {
		before.by[pid] -= time.Hour
	}
	if !before.starved() {
		t.Error("a process that has waited for an hour is not seen")
	}
}

// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

func watching(hosts ...string) (w *Watch, log *strings.Builder, shared func() int64) {
	log = new(strings.Builder)
	scope := tally.NewTestScope("", nil)
	w = New("a:1", slog.New(slog.NewTextHandler(log, nil)), scope)
	names := make(map[string]bool)
	for _, h := range hosts {
		names[h] = true
	}
	w.SetHosts(names)
	return w, log, func() int64 { return scope.Snapshot().Counters()["rpc.shared_address_calls+"].Value() }
}

// A host that is started anew is one process after another.
func TestAHostThatIsStartedAnewIsOneProcess(t *testing.T) {
	w, log, shared := watching("a:1", "b:1")
	now := time.Now()
	for process := range 10 {
		for range 5 {
			w.called(now, "b:1", fmt.Sprint(process))
		}
	}
	if log.Len() > 0 || shared() != 0 {
		t.Errorf("%d calls: %s", shared(), log)
	}
	w.called(now, "b:1", "8") // a call that was on its way
	if log.Len() > 0 || shared() != 1 {
		t.Errorf("%d calls: %s", shared(), log)
	}
}

// Two processes of one host, or more, are logged once an hour, and counted.
func TestAHostOfTwoProcessesIsLogged(t *testing.T) {
	for processes := 2; processes <= 4; processes++ {
		w, log, shared := watching("a:1", "b:1")
		now := time.Now()
		for i := range 101 * processes {
			w.called(now, "b:1", fmt.Sprint("machine/", i%processes))
			w.SetHosts(map[string]bool{"a:1": true, "b:1": true})
		}
		if lines := strings.Count(log.String(), "two processes"); lines != 1 || shared() != int64(100*processes) {
			t.Errorf("%d processes: %d lines for %d calls: %s", processes, lines, shared(), log)
		}
		if !strings.Contains(log.String(), "host=b:1 process=machine/1 other=machine/0") {
			t.Errorf("%d processes: %s", processes, log)
		}
		w.called(now.Add(time.Hour), "b:1", "machine/0")
		if lines := strings.Count(log.String(), "two processes"); lines != 2 {
			t.Errorf("%d processes: %d lines after an hour", processes, lines)
		}
	}
}

// A host asks itself without a call, so any call by its own address is another process's.
func TestACallByTheOwnAddressIsLogged(t *testing.T) {
	w, log, shared := watching("b:1")
	w.called(time.Now(), "a:1", w.process)
	if log.Len() > 0 {
		t.Errorf("its own call: %s", log)
	}
	for range 3 {
		w.called(time.Now(), "a:1", "another")
		w.SetHosts(map[string]bool{"a:1": true})
	}
	if lines := strings.Count(log.String(), "two processes"); lines != 1 || shared() != 3 {
		t.Errorf("%d lines for %d calls: %s", lines, shared(), log)
	}
}

// Names that callers choose take no memory, and programs go from one edge to another.
func TestOnlyMembersAreWatched(t *testing.T) {
	w, log, shared := watching("b:1")
	for i := range 1000 {
		w.called(time.Now(), "program", fmt.Sprint(i%2))
		w.called(time.Now(), fmt.Sprint("stranger ", i), "1")
		w.called(time.Now(), "b:1", fmt.Sprint(i))
	}
	if log.Len() > 0 || shared() != 0 || len(w.hosts) != 2 || len(w.hosts["b:1"].recent) > maxRecent {
		t.Errorf("%d hosts, %d calls: %s", len(w.hosts), shared(), log)
	}
}

// The name of the process goes with the calls of its own host, beside other headers.
func TestCallsNameTheirProcess(t *testing.T) {
	w, _, _ := watching("b:1")
	if len(w.process) > maxName || !strings.Contains(w.process, "/") {
		t.Errorf("process %q", w.process)
	}
	var got map[string]string
	d := w.Caller("b:1", decider(func(ctx context.Context) { got = rpc.Headers(ctx) }))
	for host, want := range map[string]string{"a:1": w.process, "program": ""} {
		if _, err := d.Update(rpc.WithHeaders(t.Context(), map[string]string{"traceparent": "00-1"}), host, nil); err != nil {
			t.Fatal(err)
		}
		if got[header] != want || got["traceparent"] != "00-1" {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// A header that is no name of a process changes nothing.
func TestALongNameIsNotKept(t *testing.T) {
	w, log, shared := watching("b:1")
	d := w.Answerer(decider(func(context.Context) {}))
	for i := range 10 {
		ctx := rpc.WithReceived(t.Context(), func(string) string { return strings.Repeat("x", maxName+i%2) })
		if _, err := d.Update(ctx, "b:1", nil); err != nil {
			t.Fatal(err)
		}
	}
	if log.Len() > 0 || shared() != 0 || len(w.hosts["b:1"].recent) != 1 {
		t.Errorf("%d calls: %s", shared(), log)
	}
}

type decider func(ctx context.Context)

func (d decider) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	d(ctx)
	return payload, nil
}

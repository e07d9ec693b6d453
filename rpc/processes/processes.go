// SPDX-License-Identifier: Apache-2.0

// Package processes notices that two processes run with the address of one host, as after
// its config was copied to another machine, or while an old process still runs beside its
// successor. Owners take their reports for those of one host, and grant both of them its part
// of each limit together.
//
//	watch := processes.New(address, log, scope) // an rpc.Instrument
//	peers := rpc.Observed(client, watch)
//
// Each process names itself in a header of its calls. The package only logs and counts: the
// calls of both are answered.
//
// One lock guards what it has heard.
package processes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

const (
	// header names the process that calls.
	header = "headgate-process"
	// maxName bounds the name of a process, in bytes.
	maxName = 100
	// maxRecent bounds how many processes of one host are remembered.
	maxRecent = 4
	// warnEvery is how often a Watch logs at most that one host is two processes.
	warnEvery = time.Hour
)

// Watch is an rpc.Instrument that notices hosts of two processes. Use New. It is safe for
// concurrent use.
type Watch struct {
	address string // of this host
	process string // this one
	log     *slog.Logger
	shared  tally.Counter

	mu    sync.Mutex // protects following fields
	hosts map[string]*host
}

var _ rpc.Instrument = (*Watch)(nil)

// host is what is known of a member.
type host struct {
	recent []string // its processes, the one that called last first
	twice  bool     // a process called after its successor before
	warned time.Time
}

// New returns a Watch of the host at address, which knows no other host yet.
func New(address string, log *slog.Logger, scope tally.Scope) *Watch {
	w := &Watch{address: address, process: name(), log: log, shared: scope.SubScope("rpc").Counter("shared_address_calls")}
	w.SetHosts(nil)
	return w
}

// name is a name for this process that tells an operator where to look for it.
func name() string {
	machine, _ := os.Hostname()
	machine = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_' // a header has only such characters
		}
		return r
	}, machine)
	return fmt.Sprintf("%.60s/%d/%08x", machine, os.Getpid(), rand.Uint32())
}

// SetHosts says by what names the members of the cluster call. Calls by other names are not
// watched.
func (w *Watch) SetHosts(names map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	hosts := make(map[string]*host, len(names)+1)
	for name := range names {
		hosts[name] = w.hosts[name]
		if hosts[name] == nil {
			hosts[name] = new(host)
		}
	}
	// This host does not call itself over the network, so any call by its address is another process's.
	hosts[w.address] = &host{recent: []string{w.process}, twice: true}
	if before := w.hosts[w.address]; before != nil {
		hosts[w.address].warned = before.warned
	}
	w.hosts = hosts
}

// Caller implements rpc.Instrument.
func (w *Watch) Caller(_ string, d rpc.Decider) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		if host == w.address { // programs have no process here
			headers := map[string]string{header: w.process}
			maps.Copy(headers, rpc.Headers(ctx))
			ctx = rpc.WithHeaders(ctx, headers)
		}
		return d.Update(ctx, host, payload)
	})
}

// Answerer implements rpc.Instrument.
func (w *Watch) Answerer(d rpc.Decider) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		if process := rpc.Received(ctx, header); process != "" && len(process) <= maxName {
			w.called(time.Now(), host, process)
		}
		return d.Update(ctx, host, payload)
	})
}

// called says that process called at now by the name of a host.
func (w *Watch) called(now time.Time, name, process string) {
	other, due := w.other(now, name, process)
	if other == "" {
		return
	}
	w.shared.Inc(1)
	if due {
		w.log.Warn("two processes run with the address of one host: owners grant them one part of each limit, and both use it; give each an address of its own, or stop one of them",
			"host", name, "process", process, "other", other)
	}
}

// other is the process that called before process by the name of a host; empty if process is
// the one that called last, or a new one. A call may still be on its way when the next process
// begins, so it is not due to be logged the first time.
func (w *Watch) other(now time.Time, name, process string) (other string, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	h := w.hosts[name]
	if h == nil || len(h.recent) > 0 && h.recent[0] == process {
		return "", false
	}
	at := slices.Index(h.recent, process)
	if at < 0 && name != w.address {
		h.recent = slices.Insert(h.recent, 0, strings.Clone(process))
		h.recent = h.recent[:min(len(h.recent), maxRecent)]
		return "", false
	}
	other = h.recent[0]
	if at > 0 {
		h.recent = slices.Insert(slices.Delete(h.recent, at, at+1), 0, process)
	}
	due = h.twice && (h.warned.IsZero() || now.Sub(h.warned) >= warnEvery)
	if h.twice = true; due {
		h.warned = now
	}
	return other, due
}

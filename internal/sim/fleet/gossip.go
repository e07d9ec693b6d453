// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/meshusage"
)

// told is what one host tells another of what it used, and waits to have heard.
type told struct {
	from, to int
	process  int32 // of the host that tells
	message  mesh.Message
	payloads []*anypb.Any
	done     bool // answered, or given up
}

// gossips reports whether any rule of s has hosts tell each other what they use.
func gossips(s *dynamicconfig.Snapshot) bool { return slices.Contains(s.Algorithms(), mesh.Name) }

// gossipsLater reports whether an action lets a rule have hosts tell each other.
func gossipsLater(a scenario.Action) bool { return a.Algorithm == mesh.Name }

// onMesh is a host's mesh on its own clock.
type onMesh struct {
	f *Fleet
	h *Host
}

// Do implements stage.Remote.
func (m onMesh) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	return m.h.mesh.DoAt(m.h.Local(m.f.Now), op)
}

// startMesh begins to tell and hear.
func (f *Fleet) startMesh(h *Host) {
	if h.mesh = nil; !h.Limits || !slices.ContainsFunc(f.configs, gossips) && !slices.ContainsFunc(f.sc.Steps, gossipsLater) {
		return
	}
	rules := func(key string) (*dynamicconfig.Rule, bool) { return f.configsOf[h.config][h.branch].Match(key) }
	h.mesh = mesh.New(h.Name, rules, mesh.Config{Interval: h.murmurs()})
	h.mesh.StartAt(h.Local(f.Now))
	h.mesh.SetPeers(f.limiting(h.branch))
	phase := traffic.Chance(f.seed, "gossip", h.Number*1009+int(h.process))
	f.Queue.Push(f.Now+time.Duration(phase.Int64N(int64(h.murmurs()))), murmur, int32(h.Number), h.process)
}

// murmurs is how often the host tells others.
func (h *Host) murmurs() time.Duration { return min(h.interval, mesh.DefaultInterval) }

// limiting are the names of the hosts of a branch that limit.
func (f *Fleet) limiting(branch int) (names []string) {
	for _, h := range f.Hosts {
		if h.branch == branch && h.Limits && f.branches[branch].members.present[h.Number] {
			names = append(names, h.Name)
		}
	}
	return names
}

// murmur is one round of the mesh's loop.
func (f *Fleet) murmur(h *Host) error {
	f.Queue.Push(f.Now+h.murmurs(), murmur, int32(h.Number), h.process)
	messages := h.mesh.RoundAt(h.Local(f.Now))
	slices.SortFunc(messages, func(a, b mesh.Message) int { return strings.Compare(a.To, b.To) })
	for _, m := range messages {
		t := &told{from: h.Number, to: f.ByName[m.To], process: h.process, message: m}
		for _, g := range m.Gossips {
			payload, err := meshusage.Encode(g)
			if err != nil {
				return fmt.Errorf("%s encodes what it used: %w", h.Name, err)
			}
			t.payloads = append(t.payloads, payload)
			f.Reports++
			f.Bytes += int64(HeaderBytes + len(h.Name) + len(payload.TypeUrl) + len(payload.Value))
		}
		f.send(t.from, t.to, hears, message{told: t}, 0)
		f.Queue.Push(f.Now+h.murmurs(), hushed, int32(t.from), f.messages.Keep(message{told: t}))
	}
	return nil
}

// hears is a message that has reached the host it is for.
func (f *Fleet) hears(h *Host, t *told) error {
	if h.mesh == nil {
		return nil
	}
	for _, payload := range t.payloads {
		var g meshusage.Report
		err := meshusage.Decode(payload, &g)
		if err == nil {
			err = h.mesh.ReceiveAt(h.Local(f.Now), f.Hosts[t.from].Name, &g)
		}
		if err != nil {
			return fmt.Errorf("%s hears %s: %w", h.Name, f.Hosts[t.from].Name, err)
		}
	}
	by := uint64(h.Number)<<32 | uint64(h.process) | 1<<63 // a number that the process keeps
	answer := meshusage.EncodeHeard(by)
	f.Bytes += int64(len(answer.TypeUrl) + len(answer.Value))
	f.send(t.to, t.from, agreed, message{told: t, by: by}, h.Slow)
	return nil
}

// agreed is the answer to what was told, or, with by 0, that there is none.
func (f *Fleet) agreed(h *Host, t *told, by uint64) {
	if h.process != t.process || t.done || h.mesh == nil {
		return
	}
	t.done = true
	h.mesh.Done(t.message, by)
}

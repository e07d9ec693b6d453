// SPDX-License-Identifier: Apache-2.0

package world

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

// gossips tells whether any rule of s has hosts tell each other what they use.
func gossips(s *dynamicconfig.Snapshot) bool { return slices.Contains(s.Algorithms(), mesh.Name) }

// gossipsLater tells whether an action lets a rule have hosts tell each other.
func gossipsLater(a scenario.Action) bool { return a.Algorithm == mesh.Name }

// onMesh is a host's mesh on its own clock.
type onMesh struct {
	c *cluster
	h *host
}

// Do implements stage.Remote.
func (m onMesh) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	return m.h.mesh.DoAt(m.h.local(m.c.now), op)
}

// startMesh begins to tell and hear.
func (c *cluster) startMesh(h *host) {
	if h.mesh = nil; !h.limits || !slices.ContainsFunc(c.configs, gossips) && !slices.ContainsFunc(c.sc.Steps, gossipsLater) {
		return
	}
	rules := func(key string) (*dynamicconfig.Rule, bool) { return c.configsOf[h.config][h.branch].Match(key) }
	h.mesh = mesh.New(h.name, rules, mesh.Config{Interval: h.murmurs()})
	h.mesh.StartAt(h.local(c.now))
	h.mesh.SetPeers(c.limiting(h.branch))
	phase := traffic.Chance(c.seed, "gossip", h.number*1009+int(h.process))
	c.queue.push(c.now+time.Duration(phase.Int64N(int64(h.murmurs()))), murmur, int32(h.number), h.process)
}

// murmurs is how often the host tells others.
func (h *host) murmurs() time.Duration { return min(h.interval, mesh.DefaultInterval) }

// limiting are the names of the hosts of a branch that limit.
func (c *cluster) limiting(branch int) (names []string) {
	for _, h := range c.hosts {
		if h.branch == branch && h.limits && c.branches[branch].members.present[h.number] {
			names = append(names, h.name)
		}
	}
	return names
}

// murmur is one round of the mesh's loop.
func (c *cluster) murmur(h *host) error {
	c.queue.push(c.now+h.murmurs(), murmur, int32(h.number), h.process)
	messages := h.mesh.RoundAt(h.local(c.now))
	slices.SortFunc(messages, func(a, b mesh.Message) int { return strings.Compare(a.To, b.To) })
	for _, m := range messages {
		t := &told{from: h.number, to: c.byName[m.To], process: h.process, message: m}
		for _, g := range m.Gossips {
			payload, err := meshusage.Encode(g)
			if err != nil {
				return fmt.Errorf("%s encodes what it used: %w", h.name, err)
			}
			t.payloads = append(t.payloads, payload)
			c.Reports++
			c.Bytes += int64(HeaderBytes + len(h.name) + len(payload.TypeUrl) + len(payload.Value))
		}
		c.send(t.from, t.to, hears, message{told: t}, 0)
		c.queue.push(c.now+h.murmurs(), hushed, int32(t.from), c.keep(message{told: t}))
	}
	return nil
}

// hears is a message that has reached the host it is for.
func (c *cluster) hears(h *host, t *told) error {
	if h.mesh == nil {
		return nil
	}
	for _, payload := range t.payloads {
		var g meshusage.Report
		err := meshusage.Decode(payload, &g)
		if err == nil {
			err = h.mesh.ReceiveAt(h.local(c.now), c.hosts[t.from].name, &g)
		}
		if err != nil {
			return fmt.Errorf("%s hears %s: %w", h.name, c.hosts[t.from].name, err)
		}
	}
	by := uint64(h.number)<<32 | uint64(h.process) | 1<<63 // a number that the process keeps
	answer := meshusage.EncodeHeard(by)
	c.Bytes += int64(len(answer.TypeUrl) + len(answer.Value))
	c.send(t.to, t.from, agreed, message{told: t, by: by}, h.slow)
	return nil
}

// agreed is the answer to what was told, or, with by 0, that there is none.
func (c *cluster) agreed(h *host, t *told, by uint64) {
	if h.process != t.process || t.done || h.mesh == nil {
		return
	}
	t.done = true
	h.mesh.Done(t.message, by)
}

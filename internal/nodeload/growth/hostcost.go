// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// HostCost is what a host takes for so many keys, all in use: each is used
// once and reported once in an interval.
type HostCost struct {
	Keys int `json:"keys"`
	// DecisionNs is CPU for one decision, its key looked up.
	DecisionNs float64 `json:"decision_ns"`
	// RoundNs is CPU for a key in a report: gather, split by owner, encode,
	// decode the grants and apply them. Transport is not in it.
	RoundNs float64 `json:"round_ns"`
	// WatchNs is CPU for a key in use, for each second in which it is watched.
	WatchNs float64 `json:"watch_ns_per_s"`
	// Bytes is memory for a key in use, and AsleepBytes for one that no caller
	// has used for some intervals.
	Bytes       float64 `json:"bytes"`
	AsleepBytes float64 `json:"asleep_bytes"`
	// Out and Back are bytes of payload for a key in a report.
	Out  float64 `json:"out_bytes"`
	Back float64 `json:"back_bytes"`
}

const (
	interval = 3 * time.Second
	look     = 100 * time.Millisecond // is how often a host may look for what is early
	owners   = 50                     // among which a host's keys are divided
	settling = 3                      // rounds
	rounds   = 3                      // measured, at least
	quiet    = 10                     // rounds after which keys sleep
)

// hostCost runs a limiter.Group of n keys on virtual time, until that many
// were reported.
func hostCost(ctx context.Context, n, reported int) (HostCost, error) {
	snapshot, err := workload.Snapshot(n, interval, algorithm.NameElastic)
	if err != nil {
		return HostCost{}, err
	}
	ring, err := ringOf(owners)
	if err != nil {
		return HostCost{}, err
	}
	names := workload.Keys(n)
	h := &hostRun{now: stage.Now(), names: names, codec: &countingCodec{grants: make(map[int]*anypb.Any)}}
	h.updater = &usage.Fanout{
		Host: "host-0", Placement: ring, Self: "", Peers: everyone{},
		Codecs: map[string]usage.Codec{algorithm.NameElastic: h.codec},
	}
	before := held()
	h.group = limiter.NewGroup(snapshot, owners, driver.WithSeed(1))
	for range settling {
		h.round(ctx)
	}
	h.decide, h.watch, h.report = stopwatch{}, stopwatch{}, stopwatch{}
	h.codec.reset()
	measured := max(rounds, reported/n)
	for range measured {
		h.round(ctx)
	}
	rows, out, back := int(h.codec.rows.Load()), h.codec.out.Load(), h.codec.back.Load()
	h.codec.forget()
	used := held() - before
	watch, report := h.watch, h.report
	for range quiet {
		h.rest(ctx)
	}
	h.codec.forget()
	asleep := held() - before
	runtime.KeepAlive(h.group)
	runtime.KeepAlive(names)
	return HostCost{
		Keys:       n,
		DecisionNs: h.decide.per(measured * n),
		RoundNs:    report.per(rows),
		WatchNs:    watch.per(measured*n) / interval.Seconds(),
		Bytes:      used / float64(n), AsleepBytes: asleep / float64(n),
		Out:  float64(out) / float64(max(rows, 1)),
		Back: float64(back) / float64(max(rows, 1)),
	}, errors.Join(h.decide.err, h.watch.err, h.report.err, h.err)
}

// hostRun drives a Group as its Run does, on virtual time.
type hostRun struct {
	group   *limiter.Group
	names   []string
	updater *usage.Fanout
	codec   *countingCodec
	now     stage.Instant
	err     error

	decide, watch, report stopwatch
}

// round is one interval: keys are used evenly over it, looked at now and then,
// and reported in the end.
func (h *hostRun) round(ctx context.Context) {
	looks := int(interval / look)
	for i := range looks {
		part := h.names[len(h.names)*i/looks : len(h.names)*(i+1)/looks]
		h.decide.time(func() {
			for _, name := range part {
				h.group.For(name).Stage().Take(context.Background(), stage.Request{Now: h.now, N: 1, Kind: stage.Final})
			}
		})
		h.look(ctx, look)
	}
	h.regular(ctx)
}

// rest is one interval in which no key is used.
func (h *hostRun) rest(ctx context.Context) {
	h.look(ctx, interval)
	h.regular(ctx)
}

// look sends what is early after some time.
func (h *hostRun) look(ctx context.Context, after time.Duration) {
	h.now = h.now.Add(after)
	var early []*driver.Batch
	h.watch.time(func() { early = driver.Of(h.group).Early(h.now) })
	h.send(ctx, early)
}

// regular sends the report of an interval.
func (h *hostRun) regular(ctx context.Context) {
	var regular []*driver.Batch
	h.report.time(func() { regular = driver.Of(h.group).Report(h.now) })
	h.send(ctx, regular)
}

func (h *hostRun) send(ctx context.Context, batches []*driver.Batch) {
	h.report.time(func() {
		for _, b := range batches {
			h.updater.Update(ctx, &b.Usage, time.Minute, func(part usage.Part, grants *usage.Grants, err error) {
				if err == nil {
					err = driver.Of(h.group).Apply(h.now, b, part.Rows, grants)
				}
				if err != nil && h.err == nil {
					h.err = err
				}
			})
			driver.Of(h.group).Done(b)
		}
	})
}

func ringOf(hosts int) (*ringpop.Ring, error) {
	return ringpop.New(membersOf(hosts), 0)
}

// everyone is owners that answer at once, and leave it to the codec what.
type everyone struct{}

var nothing = &anypb.Any{TypeUrl: usage.GrantsTypeURL}

// Peer implements rpc.Peers.
func (everyone) Peer(string) (rpc.Decider, error) { return everyone{}, nil }

// Update implements rpc.Decider.
func (everyone) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nothing, nil }

// countingCodec is the built-in one. It counts, and has the owners' answers
// ready, so that they cost nothing.
type countingCodec struct {
	rows, out, back atomic.Int64

	mu     sync.Mutex
	grants map[int]*anypb.Any // by their number of rows
}

func (c *countingCodec) reset() {
	c.rows.Store(0)
	c.out.Store(0)
	c.back.Store(0)
}

// forget lets go of the answers.
func (c *countingCodec) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()

	clear(c.grants)
}

// EncodeReport implements usage.Codec.
func (c *countingCodec) EncodeReport(u *usage.Report) (*anypb.Any, error) {
	payload, err := usage.Columnar{}.EncodeReport(u)
	c.rows.Add(int64(u.Len()))
	c.out.Add(int64(len(payload.GetValue())))
	return payload, err
}

// DecodeGrants implements usage.Codec.
func (c *countingCodec) DecodeGrants(_ *anypb.Any, u *usage.Report) (*usage.Grants, error) {
	n := u.Len()
	c.mu.Lock()
	payload, ok := c.grants[n]
	if !ok {
		var err error
		if payload, err = evenGrants(n, owners); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		c.grants[n] = payload
	}
	c.mu.Unlock()
	c.back.Add(int64(len(payload.Value)))
	return usage.Columnar{}.DecodeGrants(payload, u)
}

// SPDX-License-Identifier: Apache-2.0

// Package replay says what limits would have done to the users in an access log:
// it turns the log into traffic for a simulated cluster, and runs each algorithm
// on it.
//
//	c := replay.Config{Format: "combined", Key: "{ip}", Hosts: 8, Speed: 1, Limit: "26/s"}
//	log, err := c.Read("access.log", file)
//	defer log.Close()
//	report, err := c.Run(ctx, log)
//
// Memory is bounded: the log is read once, its rows go to a temporary file, and
// keys keep sums alone. Out of scope: what the users would have done after a
// rejection.
package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/internal/sim/world"
)

// How a request's host is chosen.
const (
	Client = "client" // by the hash of the client's address
	Random = "random"
)

// Config is what to make of a log.
type Config struct {
	Format     string // combined, json or envoy
	Key        string // template of the key that a request uses, such as {ip}
	Hosts      int
	By         string  // Client or Random
	Speed      float64 // 10: ten times as fast as the log
	Limit      string  // of each key, such as 26/s
	Burst      float64 // tokens; 0: one second of the limit
	Algorithms []string
	Seed       uint64
	SkipBad    bool // leave out lines that cannot be read
}

// Validate says what is wrong with c, all at once.
func (c Config) Validate() error {
	var errs []error
	if c.Hosts < 1 || c.Hosts > 1000 {
		errs = append(errs, fmt.Errorf("--hosts %d: take 1 to 1000", c.Hosts))
	}
	if c.By != Client && c.By != Random {
		errs = append(errs, fmt.Errorf("--by %q: take client or random", c.By))
	}
	if !(c.Speed >= 0.001 && c.Speed <= 1e6) {
		errs = append(errs, fmt.Errorf("--speed %v: take 0.001 to 1000000", c.Speed))
	}
	if len(c.Algorithms) == 0 {
		errs = append(errs, errors.New("--algorithm: name one"))
	}
	if c.Burst < 0 || c.Burst > 0 && c.Burst < 1 {
		errs = append(errs, fmt.Errorf("--burst %v: take 1 or more", c.Burst))
	}
	if _, err := c.limits(1); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// prefix stands before each key, so that one rule has them all.
const prefix = "replay:"

// limits are one rule for all keys.
func (c Config) limits(keys int) (*dynamicconfig.Snapshot, error) {
	rate, err := dynamicconfig.ParseLimit(c.Limit)
	if err != nil {
		return nil, fmt.Errorf("--limit: %w", err)
	}
	if rate <= 0 {
		return nil, fmt.Errorf("--limit %s: take more than 0/s", c.Limit)
	}
	rule := dynamicconfig.Rule{Key: prefix + "*", Limit: rate, Burst: c.Burst, MaxKeys: max(keys, 1)}
	snapshot, err := dynamicconfig.Config{Name: "replay", Rules: []dynamicconfig.Rule{rule}}.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("--limit %s: %w", c.Limit, err)
	}
	return snapshot, nil
}

// Line is what came out for one algorithm.
type Line struct {
	Algorithm       string  `json:"algorithm"`
	RejectedPct     float64 `json:"rejected_pct"`     // of all requests
	FalseRejectPct  float64 `json:"false_reject_pct"` // likewise, that one bucket had admitted
	OverPct         float64 `json:"over_pct"`
	KeysRejected    int     `json:"keys_rejected"` // keys with a rejected request
	ReportsPerHostS float64 `json:"reports_per_host_s"`
	AsksPerHostS    float64 `json:"asks_per_host_s"`
	WaitedPct       float64 `json:"waited_pct"`
	WaitP99Ms       float64 `json:"wait_p99_ms"`
}

// OneBucket is the name of the line of the perfect bucket.
const OneBucket = "one bucket"

// Report is what limits would have done.
type Report struct {
	Events       int64    `json:"events"`
	Keys         int      `json:"keys"`
	LogSeconds   float64  `json:"log_seconds"`
	BadLines     int64    `json:"bad_lines"`
	WithoutField int64    `json:"events_without_key_field"`
	NoClient     int64    `json:"events_without_client"` // all of which went to one host
	Lines        []Line   `json:"algorithms"`
	Limits       []Choice `json:"limits"`
}

// Choice is a limit under which one perfect bucket per key rejects a part. It is 0 if none
// does, because more events than the burst come at once.
type Choice struct {
	RejectedPct float64 `json:"rejected_pct"`
	Limit       float64 `json:"limit_per_s"`
}

// percents are those that limits are looked for.
var percents = []float64{0.1, 1, 5}

// Run replays a log with each algorithm. Now and then it tells how many percent of that
// are done; tell must be safe for concurrent use, or nil.
func (c Config) Run(ctx context.Context, l *Log, tell func(percent int64)) (*Report, error) {
	limits, err := c.limits(len(l.Keys))
	if err != nil {
		return nil, err
	}
	sc := c.scenario(l, limits)
	var jobs []world.Job
	for _, a := range c.Algorithms {
		jobs = append(jobs, world.Job{Scenario: sc, Options: world.Options{Algorithm: a, Seed: c.Seed, Lean: true}})
	}
	if tell != nil {
		l.tell = func(rows int64) { tell(min(100*rows/max(l.Events*int64(len(jobs)), 1), 100)) }
	}
	results, err := world.Sweep(ctx, jobs, nil)
	if err != nil {
		return nil, err
	}
	r := &Report{Events: l.Events, Keys: len(l.Keys), LogSeconds: l.Length.Seconds(), BadLines: l.Bad, WithoutField: l.WithoutField, NoClient: l.NoClient}
	r.Lines = append(r.Lines, oneBucket(results[0]))
	for i, result := range results {
		r.Lines = append(r.Lines, lineOf(c.Algorithms[i], result))
	}
	found, err := l.LimitFor(ctx, percents, c.Burst)
	if err != nil {
		return nil, err
	}
	for i, limit := range found {
		r.Limits = append(r.Limits, Choice{percents[i], limit})
	}
	return r, nil
}

// scenario is the log as a scenario.
func (c Config) scenario(l *Log, limits *dynamicconfig.Snapshot) *scenario.Scenario {
	sc := &scenario.Scenario{
		Name: "replay", Duration: l.length(), Limits: limits,
		Network:    scenario.Network{Latency: time.Millisecond},
		Membership: scenario.Membership{Detect: 5 * time.Second},
		Trace:      &traffic.Trace{Open: l.rows},
	}
	for i := range l.Hosts {
		sc.Hosts = append(sc.Hosts, fmt.Sprintf("host-%d", i))
	}
	sc.Trace.Hosts = sc.Hosts
	for _, key := range l.Keys {
		sc.Trace.Keys = append(sc.Trace.Keys, keyOf(key))
	}
	return sc
}

func lineOf(algorithm string, r *measure.Result) Line {
	k := r.Whole()
	line := Line{
		Algorithm: algorithm, RejectedPct: k.RejectedPct, FalseRejectPct: k.FalseRejectPct, OverPct: k.OverPct,
		ReportsPerHostS: k.ReportsPerHostS, AsksPerHostS: k.AsksPerHostS, WaitedPct: k.WaitedPct, WaitP99Ms: k.WaitP99.Seconds() * 1e3,
	}
	for _, one := range r.Keys {
		if one.Admitted < one.Offered {
			line.KeysRejected++
		}
	}
	return line
}

// oneBucket is what the perfect bucket did.
func oneBucket(r *measure.Result) Line {
	k := r.Whole()
	line := Line{Algorithm: OneBucket, RejectedPct: 100 * float64(k.Offered-k.Oracle) / float64(max(k.Offered, 1))}
	for _, one := range r.Keys {
		if one.Oracle < one.Offered {
			line.KeysRejected++
		}
	}
	return line
}

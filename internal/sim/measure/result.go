// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"math"
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// Result is what came out of one run.
type Result struct {
	Scenario string
	Seed     uint64
	Hosts    []string
	Marks    []Mark

	// Keys are in the order in which the scenario first names them. With
	// more than one, All is all of them together: sums of amounts, and the
	// worst of the others.
	Keys []Key
	All  *Key

	// Events is how many events were handled.
	Events int64
}

// Key is how close one key's limiters came to the oracle. All metrics are
// defined in docs/accuracy.md.
type Key struct {
	Key       string // AllKeys for all together
	Algorithm string
	Metrics

	// Offered, Admitted and Oracle are cost after the warmup.
	Offered, Admitted, Oracle int64

	// Seconds has one entry for each second of the run.
	Seconds []Second

	// Weights, by second and host, are the parts of the limit that hosts'
	// buckets refill with; nil unless asked for.
	Weights [][]float64
}

// AllKeys stands for all keys together.
const AllKeys = "*"

// Metrics say how close a run came to one perfect bucket.
type Metrics struct {
	UtilisationPct  float64 // admitted ÷ oracle's admitted
	FalseRejectPct  float64 // what seconds lack to the oracle ÷ offered
	OverPct         float64 // largest excess in any 10 s ÷ limit · 10 s
	OverLaterPct    float64 // the same, without what follows a mark within 10 s
	SettleS         float64 // worst time to come close again after a mark; NaN without marks
	ReportsPerHostS float64 // calls to owners that report, per host and second; of all keys
	AsksPerHostS    float64 // calls to owners that ask for an event, likewise
	BytesPerHostS   float64 // on the network, both ways, per host and second; of all keys

	EventsPerHostS float64       // offered, per host and second, retries included
	RejectedPct    float64       // clients that were never admitted ÷ clients
	WaitedPct      float64       // decisions that waited for the network ÷ decisions
	WaitP50        time.Duration // of those that waited; 0 if none did
	WaitP99        time.Duration // likewise
	Fairness       float64       // Jain's index of admitted ÷ offered by host, 0..1
	LeastPct       float64       // smallest admitted ÷ offered of a host that was offered enough
	MostPct        float64       // largest
	SaturatedPct   float64       // windows of 10 s in which more than the limit was offered
}

// Second is what happened in one second, as cost, and the limit in events/s
// at its end.
type Second struct {
	Offered, Admitted, Oracle int64
	Limit                     float64
}

// Tally is what a run counted besides what its buckets compare.
type Tally struct {
	HostTime traffic.Time // sum of the times that limiting hosts were up
	Measured traffic.Time // likewise, after the warmup
	Reports  int64        // calls to owners, or among hosts, that say what was used
	Asks     int64        // calls to owners that ask for events
	Bytes    int64
}

// ResultOf computes what was measured, and adds it to r, which says what was run.
// Weights are by bucket; nil: nobody asked for them.
func ResultOf(r *Result, buckets []*Bucket, t Tally, weights [][][]float64) *Result {
	all := Key{Key: AllKeys}
	all.SettleS = math.NaN()
	var sums amounts
	var everybody users
	for i, b := range buckets {
		a := b.meter.amounts()
		sums = sums.plus(a)
		everybody.plus(b.users)
		k := Key{Key: b.Name, Algorithm: b.algorithm, Offered: a.offered, Admitted: a.admitted, Oracle: a.oracle}
		k.Metrics = Metrics{OverPct: b.meter.over.worst, OverLaterPct: b.meter.over.worstLater, SettleS: b.meter.worstSettle(r.Marks)}
		k.amounts(a)
		k.users(&b.users, t)
		k.LeastPct, k.MostPct = b.users.extremes()
		k.Fairness, k.SaturatedPct = b.users.fairness(), 100*b.meter.saturated()
		for s, sum := range b.meter.seconds {
			limit := b.meter.over.limitAt(traffic.Time(s+1) * time.Second)
			k.Seconds = append(k.Seconds, Second{sum.offered, sum.admitted, sum.oracle, limit})
		}
		if weights != nil {
			k.Weights = weights[i]
		}
		all.Algorithm = k.Algorithm
		all.OverPct = max(all.OverPct, k.OverPct)
		all.OverLaterPct = max(all.OverLaterPct, k.OverLaterPct)
		if !(all.SettleS >= k.SettleS) {
			all.SettleS = k.SettleS
		}
		if i == 0 || k.MostPct-k.LeastPct > all.MostPct-all.LeastPct {
			all.LeastPct, all.MostPct = k.LeastPct, k.MostPct
		}
		all.Fairness += k.Fairness * float64(a.offered)
		all.SaturatedPct += k.SaturatedPct * float64(a.offered)
		r.Keys = append(r.Keys, k)
	}
	if len(r.Keys) > 1 {
		all.Offered, all.Admitted, all.Oracle = sums.offered, sums.admitted, sums.oracle
		all.amounts(sums)
		all.users(&everybody, t)
		all.Fairness /= float64(max(sums.offered, 1))
		all.SaturatedPct /= float64(max(sums.offered, 1))
		r.All = &all
	}
	return r
}

// amounts fills in what amounts say.
func (m *Metrics) amounts(a amounts) {
	m.UtilisationPct, m.FalseRejectPct = a.utilisation(), a.falseRejects()
}

// users fills in what users felt, and the calls that all keys took.
func (m *Metrics) users(u *users, t Tally) {
	hostSeconds := max(t.HostTime.Seconds(), 1e-9)
	m.ReportsPerHostS = float64(t.Reports) / hostSeconds
	m.AsksPerHostS = float64(t.Asks) / hostSeconds
	m.BytesPerHostS = float64(t.Bytes) / hostSeconds
	m.EventsPerHostS = float64(u.events) / max(t.Measured.Seconds(), 1e-9)
	m.RejectedPct, m.WaitedPct = u.gaveUp(), u.waited()
	m.WaitP50, m.WaitP99 = u.waits.quantile(0.5), u.waits.quantile(0.99)
}

// Whole is the key that stands for the run: the only one, or all together.
func (r *Result) Whole() *Key {
	if r.All != nil {
		return r.All
	}
	return &r.Keys[0]
}

// Row is one key of one run, as in the JSON output.
type Row struct {
	Scenario        string   `json:"scenario"`
	Algorithm       string   `json:"algorithm"`
	Seed            uint64   `json:"seed"`
	Key             string   `json:"key"`
	UtilisationPct  float64  `json:"utilisation_pct"`
	FalseRejectPct  float64  `json:"false_reject_pct"`
	OverPct         float64  `json:"over_pct"`
	OverLaterPct    float64  `json:"over_later_pct"`
	SettleS         *float64 `json:"settle_s"`
	ReportsPerHostS float64  `json:"reports_per_host_s"`
	AsksPerHostS    float64  `json:"asks_per_host_s"`
	BytesPerHostS   float64  `json:"bytes_per_host_s"`
	EventsPerHostS  float64  `json:"events_per_host_s"`
	RejectedPct     float64  `json:"rejected_pct"`
	WaitedPct       float64  `json:"waited_pct"`
	WaitP50Ms       float64  `json:"wait_p50_ms"`
	WaitP99Ms       float64  `json:"wait_p99_ms"`
	Fairness        float64  `json:"fairness"`
	LeastPct        float64  `json:"least_pct"`
	MostPct         float64  `json:"most_pct"`
	SaturatedPct    float64  `json:"saturated_pct"`
	Offered         int64    `json:"offered"`
	Admitted        int64    `json:"admitted"`
	OracleAdmitted  int64    `json:"oracle_admitted"`
}

// Rows are the result as JSON has it: a row per key, and one for all together
// if there are several.
func (r *Result) Rows() []Row {
	keys := r.Keys
	if r.All != nil {
		keys = append([]Key{*r.All}, keys...)
	}
	rows := make([]Row, len(keys))
	for i, k := range keys {
		rows[i] = Row{
			Scenario: r.Scenario, Algorithm: k.Algorithm, Seed: r.Seed, Key: k.Key,
			UtilisationPct:  round(k.UtilisationPct, 4),
			FalseRejectPct:  round(k.FalseRejectPct, 4),
			OverPct:         round(k.OverPct, 4),
			OverLaterPct:    round(k.OverLaterPct, 4),
			ReportsPerHostS: round(k.ReportsPerHostS, 4),
			AsksPerHostS:    round(k.AsksPerHostS, 4),
			BytesPerHostS:   round(k.BytesPerHostS, 2),
			EventsPerHostS:  round(k.EventsPerHostS, 4),
			RejectedPct:     round(k.RejectedPct, 4),
			WaitedPct:       round(k.WaitedPct, 4),
			WaitP50Ms:       round(k.WaitP50.Seconds()*1e3, 3),
			WaitP99Ms:       round(k.WaitP99.Seconds()*1e3, 3),
			Fairness:        round(k.Fairness, 4),
			LeastPct:        round(k.LeastPct, 4),
			MostPct:         round(k.MostPct, 4),
			SaturatedPct:    round(k.SaturatedPct, 1),
			Offered:         k.Offered, Admitted: k.Admitted, OracleAdmitted: k.Oracle,
		}
		if s := round(k.SettleS, 1); !math.IsNaN(s) {
			rows[i].SettleS = &s
		}
	}
	return rows
}

// JSON is rows as an indented array.
func JSON(rows []Row) ([]byte, error) {
	if rows == nil {
		rows = []Row{}
	}
	return json.MarshalIndent(rows, "", "  ")
}

// round to so many digits behind the point.
func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

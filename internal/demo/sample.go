// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math"
	"slices"
	"time"
)

// minute is how many seconds of history a frame has.
const minute = 60

// read reads all counters.
func (r *runner) read() reading {
	now := reading{at: time.Now(), sent: make([]int64, r.config.Hosts)}
	for i, h := range r.cluster.hosts {
		now.sent[i] = r.load.sent[i].Load()
		for s, what := range r.meter.series {
			for _, share := range h.status(r.config.Lanes[what.lane].Key).Shares {
				if share.Algorithm == what.algorithm {
					r.meter.note(s, i, share.Allowed)
				}
			}
		}
	}
	now.admitted = r.meter.admitted()
	return now
}

// sample takes a reading for frames, and once per interval one for history.
func (r *runner) sample() {
	r.recent = append(r.recent, r.read())
	if len(r.recent) > samplesPerInterval+1 {
		r.recent = slices.Clone(r.recent[1:])
	}
	r.samples++
	if r.samples%samplesPerInterval != 0 {
		return
	}
	now := r.now()
	ideal := r.ideal(now)
	for i := range r.history {
		ratio := 0.0
		if ideal > 0 {
			ratio = sum(now.admitted[i]) / ideal
		}
		r.history[i] = append(r.history[i], ratio)
		if len(r.history[i]) > minute {
			r.history[i] = slices.Clone(r.history[i][1:])
		}
	}
}

// now is the rates of about the last second.
func (r *runner) now() rates {
	return r.recent[0].rates(r.recent[len(r.recent)-1])
}

func (r *runner) ideal(now rates) float64 {
	return math.Min(float64(r.config.Limit), sum(now.offered))
}

// frame is what can be seen now.
func (r *runner) frame(p phase, elapsed time.Duration, measuring bool) Frame {
	now := r.now()
	f := Frame{
		Page:      r.page,
		Headline:  r.headline,
		Notice:    r.cluster.notices.newest(),
		Elapsed:   time.Since(r.began),
		Total:     r.config.For,
		Round:     r.round,
		Phase:     p.index,
		Progress:  math.Min(elapsed.Seconds()/p.length.Seconds(), 1),
		Measuring: measuring,
		Limit:     float64(r.config.Limit),
		Offered:   sum(now.offered),
		Failed:    r.load.failed.Load(),
	}
	for i, s := range r.meter.series {
		f.Algorithms = append(f.Algorithms, AlgorithmRow{
			Name:     s.algorithm,
			Answers:  s.lane == 0 && s.algorithm == r.config.Lanes[0].New,
			Admitted: sum(now.admitted[i]),
			Ideal:    r.ideal(now),
			History:  slices.Clone(r.history[i]),
		})
	}
	decides := r.cluster.decider()
	for i := range r.cluster.hosts {
		f.Hosts = append(f.Hosts, r.hostRow(i, decides, now))
	}
	return f
}

func (r *runner) hostRow(i, decides int, now rates) HostRow {
	h := r.cluster.hosts[i]
	row := HostRow{
		Name:    h.name,
		Hot:     i == r.hot,
		Decides: i == decides && h.running,
		Offered: now.offered[i],
		State:   StateFallback,
	}
	for s := range r.meter.series {
		row.Admitted = append(row.Admitted, now.admitted[s][i])
	}
	if !h.running {
		row.State = StateKilled
		return row
	}
	for _, share := range h.status(r.config.Lanes[0].Key).Shares {
		if share.Algorithm != r.config.Lanes[0].New {
			continue
		}
		row.InForce = float64(share.Level.Limit)
		if !share.Fallback {
			row.Weight, row.State = share.Weight, StateGrant
		}
	}
	return row
}

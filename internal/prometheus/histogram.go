// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/uber-go/tally/v4"
)

// histograms are the histograms of one name, by the values of their labels. tally says
// how many samples each bucket got, and not what they were: so the sum is an estimate,
// of samples in the middle of their buckets. Safe for concurrent use.
type histograms struct {
	desc   *prom.Desc
	labels []string
	bounds []float64 // upper bounds, ascending; the last is +Inf

	mu  sync.Mutex // protects following fields
	all map[string]*histogram
}

// histogram is one of them. Its histograms' mu protects counts.
type histogram struct {
	of     *histograms
	values []string // of the labels
	counts []uint64 // of the buckets, one for each bound
}

var (
	_ prom.Collector              = (*histograms)(nil)
	_ tally.CachedHistogram       = (*histogram)(nil)
	_ tally.CachedHistogramBucket = bucket{}
)

func newHistograms(name string, labels []string, buckets tally.Buckets) *histograms {
	h := &histograms{desc: prom.NewDesc(name, help(name), labels, nil), labels: labels, all: make(map[string]*histogram)}
	h.bounds = slices.Clone(buckets.AsValues())
	slices.Sort(h.bounds)
	if n := len(h.bounds); n == 0 || !math.IsInf(h.bounds[n-1], 1) {
		h.bounds = append(h.bounds, math.Inf(1))
	}
	return h
}

// with returns the histogram with these labels.
func (h *histograms) with(tags map[string]string) *histogram {
	values := make([]string, len(h.labels))
	for i, label := range h.labels {
		values[i] = tags[label]
	}
	key := strings.Join(values, "\x00")
	h.mu.Lock()
	defer h.mu.Unlock()

	one := h.all[key]
	if one == nil {
		one = &histogram{h, values, make([]uint64, len(h.bounds))}
		h.all[key] = one
	}
	return one
}

// Describe implements prom.Collector.
func (h *histograms) Describe(to chan<- *prom.Desc) { to <- h.desc }

// Collect implements prom.Collector.
func (h *histograms) Collect(to chan<- prom.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()

	for _, one := range h.all {
		buckets, count, sum, below := make(map[float64]uint64, len(h.bounds)), uint64(0), 0.0, 0.0
		for i, bound := range h.bounds {
			count += one.counts[i]
			if math.IsInf(bound, 1) {
				sum += float64(one.counts[i]) * below
				continue
			}
			buckets[bound] = count
			sum += float64(one.counts[i]) * (below + bound) / 2
			below = bound
		}
		to <- prom.MustNewConstHistogram(h.desc, count, sum, buckets, one.values...)
	}
}

// ValueBucket implements tally.CachedHistogram.
func (one *histogram) ValueBucket(_, upper float64) tally.CachedHistogramBucket {
	i, _ := slices.BinarySearch(one.of.bounds, upper)
	return bucket{one, min(i, len(one.counts)-1)}
}

// DurationBucket implements tally.CachedHistogram.
func (one *histogram) DurationBucket(_, upper time.Duration) tally.CachedHistogramBucket {
	if upper == math.MaxInt64 {
		return one.ValueBucket(0, math.Inf(1))
	}
	return one.ValueBucket(0, upper.Seconds())
}

// bucket is one bucket of a histogram.
type bucket struct {
	of *histogram
	i  int
}

// ReportSamples implements tally.CachedHistogramBucket.
func (b bucket) ReportSamples(n int64) {
	b.of.of.mu.Lock()
	defer b.of.of.mu.Unlock()

	b.of.counts[b.i] += uint64(max(n, 0))
}

// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"errors"
	"slices"
	"sync"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// shared is a Gatherer whose callers share the work that is under way. What is complete when a caller
// comes is not for that caller. promhttp's CoalesceGather gives it to callers until all readers before
// have written it, so readers that overlap read the same values for good.
type shared struct {
	from prom.Gatherer

	mu       sync.Mutex // protects underWay
	underWay *gathering // nil: none
}

type gathering struct {
	done     chan struct{} // closed at the end; protects following fields
	families []*dto.MetricFamily
	err      error
}

// Gather implements prom.Gatherer. Callers must not change the families.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	g, first := s.underWay, s.underWay == nil
	if first {
		g = &gathering{done: make(chan struct{})}
		s.underWay = g
	}
	s.mu.Unlock()
	if first {
		s.gather(g)
	}
	<-g.done
	return slices.Clone(g.families), g.err
}

// errPanicked is what those who share the work are told if it panics.
var errPanicked = errors.New("gathering the metrics panicked")

// gather does the work of g, and ends it in any case: others wait for it.
func (s *shared) gather(g *gathering) {
	defer func() {
		s.mu.Lock()
		s.underWay = nil
		s.mu.Unlock()
		close(g.done)
	}()
	g.err = errPanicked
	g.families, g.err = s.from.Gather()
}

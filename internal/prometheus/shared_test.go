// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"testing"
	"testing/synctest"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Readers share what is being gathered, and get nothing that was complete when they came.
func TestReadersShareWhatIsUnderWayAndNothingOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gathered := 0
		s := &shared{from: prom.GathererFunc(func() ([]*dto.MetricFamily, error) {
			gathered++
			time.Sleep(time.Second)
			return make([]*dto.MetricFamily, gathered), nil
		})}
		got := make(chan int, 2)
		for range 2 {
			go func() {
				families, _ := s.Gather()
				got <- len(families)
			}()
		}
		if a, b := <-got, <-got; a != 1 || b != 1 {
			t.Errorf("together, readers got number %d and %d, want 1", a, b)
		}
		if families, _ := s.Gather(); len(families) != 2 {
			t.Errorf("the next got number %d, want 2", len(families))
		}
	})
}

// If the work panics, those who share it get an error, and the next reader does it anew.
func TestReadersDoNotWaitForWorkThatPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		s := &shared{from: prom.GathererFunc(func() ([]*dto.MetricFamily, error) {
			if time.Sleep(time.Second); panics {
				panic("a collector")
			}
			return nil, nil
		})}
		go func() {
			defer func() { _ = recover() }()
			_, _ = s.Gather()
		}()
		synctest.Wait()
		if _, err := s.Gather(); err == nil {
			t.Error("the one who waits gets no error")
		}
		panics = false
		if _, err := s.Gather(); err != nil {
			t.Error(err)
		}
	})
}

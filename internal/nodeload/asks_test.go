// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"testing"
	"time"
)

func TestAsksAreMeasured(t *testing.T) {
	c, err := Asks(t.Context(), AskConfig{Answered: 500 * time.Millisecond, Gone: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if c.Decisions == 0 || c.Asks > c.Decisions || c.CallP50Ms <= 0 || c.CallP99Ms < c.CallP50Ms {
		t.Errorf("while the owner answers: %+v", c)
	}
	for _, g := range []GoneCost{c.Hung, c.Stopped} {
		if g.Decisions == 0 || g.Waited > g.Decisions || g.LongestMs <= 0 {
			t.Errorf("without the owner: %+v", g)
		}
	}
}

func TestAHistogramIsExactToAnEighth(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, 1, 8, 9, 100, 1000, 12345, time.Second, 5 * time.Minute} {
		if got := most(step(d)); got < d || float64(got) > float64(max(d, 8))*9/8 {
			t.Errorf("%d is counted as at most %d", d, got)
		}
	}
	for i := range 100 {
		h.add(time.Duration(i) * time.Microsecond)
	}
	before := h.read()
	for range 99 {
		h.add(time.Millisecond)
	}
	h.add(time.Second)
	for q, want := range map[float64]time.Duration{0.5: time.Millisecond, 0.99: time.Millisecond, 1: time.Second} {
		if got := quantileOf(before, h.read(), q); got < want || got > want*9/8 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantileOf(h.read(), h.read(), 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
)

func TestOnlyTheTableChanges(t *testing.T) {
	const begins, ends = "<!-- make sim: one begins -->\n", "<!-- make sim: one ends -->\n"
	const other = "<!-- make sim: two begins -->\ntwo\n<!-- make sim: two ends -->\n"
	got, err := between("a\n"+other+begins+"old\n"+ends+"b\n", "one", "new\n")
	if want := "a\n" + other + begins + "new\n" + ends + "b\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := between("a\n"+begins, "one", "new\n"); err == nil || !strings.Contains(err.Error(), "add the lines") {
		t.Errorf("err = %v", err)
	}
}

func TestEveryFigureOfTheAblationIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("runs six scenarios for every variant")
	}
	text, err := ablation(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2+len(variants) {
		t.Fatalf("%d lines for %d variants", len(lines), len(variants))
	}
	for _, line := range lines {
		if n := strings.Count(line, "|"); n != len(cells)+3 || strings.Contains(line, "NaN") {
			t.Errorf("%d bars in %s", n, line)
		}
	}
}

// hears is a Stateful algorithm, and a key of it, that keeps what it hears.
type hears struct {
	algorithm.Func

	reports []algorithm.Report
}

func (h *hears) NewKey(time.Duration) algorithm.Key { return h }

func (h *hears) Report(_ time.Duration, _ algorithm.Limit, _ uint32, r algorithm.Report) (algorithm.Grant, bool) {
	h.reports = append(h.reports, r)
	return algorithm.Grant{}, true
}

func (h *hears) Expire(time.Duration, func(uint32)) {}
func (h *hears) Hosts() int                         { return 1 }
func (h *hears) Knows(uint32) bool                  { return true }

func TestPatienceKeepsWhatWasSaid(t *testing.T) {
	inner := &hears{}
	key := patient{inner}.NewKey(3 * time.Second)
	said := algorithm.Report{Allowed: 1, Rejected: 2, Elapsed: time.Second, Wants: 3, Cost: 1}
	for at, want := range []bool{true, false, false, true, false} {
		if _, ok := key.Report(time.Duration(at)*time.Second, algorithm.Limit{}, 7, said); ok != want {
			t.Errorf("at %d s answered: %v", at, ok)
		}
	}
	together := algorithm.Report{Allowed: 3, Rejected: 6, Elapsed: 3 * time.Second, Wants: 3, Cost: 1}
	if len(inner.reports) != 2 || inner.reports[0] != said || inner.reports[1] != together {
		t.Errorf("heard %+v", inner.reports)
	}
}

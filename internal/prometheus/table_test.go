// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestATableHasWhatThereIsNow(t *testing.T) {
	e, err := New(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var rows []Row
	table := NewTable("rule", "key")
	table.Counter("key_allowed")
	table.Gauge("key_limit")
	if err := e.Rows(table, func() []Row { return rows }); err != nil {
		t.Fatal(err)
	}
	read := func() (kept string) {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if w.Code != 200 {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		if problems, err := promlint.New(strings.NewReader(w.Body.String())).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "headgate_") {
				kept += line
			}
		}
		return kept
	}
	for _, tt := range []struct {
		name string
		rows []Row
		want string
	}{
		{"none", nil, ""},
		{"two, one of them without a limit", []Row{{[]string{"a*", "a1"}, []float64{3, 10}}, {[]string{"b", "b"}, []float64{4, math.NaN()}}}, `
headgate_key_allowed_total{key="a1",rule="a*"} 3
headgate_key_allowed_total{key="b",rule="b"} 4
headgate_key_limit{key="a1",rule="a*"} 10
`},
		{"one left", []Row{{[]string{"b", "b"}, []float64{5, math.Inf(1)}}}, `
headgate_key_allowed_total{key="b",rule="b"} 5
headgate_key_limit{key="b",rule="b"} +Inf
`},
		{"keys that are no text, and look the same", []Row{{[]string{"*", "\xff\"\n"}, []float64{1}}, {[]string{"*", "\xfe\"\n"}, []float64{2}}}, `
headgate_key_allowed_total{key="` + "\uFFFD" + `\"\n",rule="*"} 1
`},
	} {
		rows = tt.rows
		if got := read(); got != strings.TrimPrefix(tt.want, "\n") {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

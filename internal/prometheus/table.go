// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"math"
	"strings"

	prom "github.com/prometheus/client_golang/prometheus"
)

// Table is metrics of things that come and go, such as keys: what read does not return is not
// in the answer. Use NewTable, name the metrics, and give it to Export.Rows.
type Table struct {
	labels  []string
	columns []column
	read    func() []Row
}

// column is one metric of a Table.
type column struct {
	desc *prom.Desc
	kind prom.ValueType
}

// Row is one thing of a Table.
type Row struct {
	// Labels are the values of the Table's labels. Of rows with the same ones the first counts.
	Labels []string
	// Values are in the order in which the metrics were named. NaN: there is none.
	Values []float64
}

// NewTable returns a Table of things that labels distinguish.
func NewTable(labels ...string) *Table { return &Table{labels: labels} }

// Gauge names the next metric, headgate_name.
func (t *Table) Gauge(name string) { t.add(prefix+name, prom.GaugeValue) }

// Counter names the next metric, headgate_name_total.
func (t *Table) Counter(name string) { t.add(prefix+name+"_total", prom.CounterValue) }

func (t *Table) add(name string, kind prom.ValueType) {
	t.columns = append(t.columns, column{prom.NewDesc(name, help(strings.TrimSuffix(name, "_total")), t.labels, nil), kind})
}

// Rows exports t. At each read of the metrics, read returns the rows. It may be called by many
// goroutines.
func (e *Export) Rows(t *Table, read func() []Row) error {
	t.read = read
	return e.register(t)
}

// Describe implements prom.Collector.
func (t *Table) Describe(to chan<- *prom.Desc) {
	for _, c := range t.columns {
		to <- c.desc
	}
}

// Collect implements prom.Collector. A value of a label that Prometheus would not take, and with it
// all metrics of the process, is made one that it takes.
func (t *Table) Collect(to chan<- prom.Metric) {
	seen := make(map[string]bool)
	for _, row := range t.read() {
		values := make([]string, len(row.Labels))
		for i, v := range row.Labels {
			values[i] = strings.ToValidUTF8(v, "\uFFFD")
		}
		id := strings.Join(values, "\xff") // which no value has
		if seen[id] {
			continue
		}
		seen[id] = true
		for i, c := range t.columns {
			if i >= len(row.Values) || math.IsNaN(row.Values[i]) {
				continue
			}
			if m, err := prom.NewConstMetric(c.desc, c.kind, row.Values[i], values...); err == nil {
				to <- m
			}
		}
	}
}

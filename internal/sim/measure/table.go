// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Group is what several seeds of one scenario, algorithm and key came to.
type Group struct {
	Scenario, Algorithm, Key string
	Rows                     []Row // by seed
}

// Groups puts rows that differ in their seed together, in the order in which
// each first appears.
func Groups(rows []Row) []Group {
	type id struct{ scenario, algorithm, key string }
	index := make(map[id]int)
	var groups []Group
	for _, r := range rows {
		k := id{r.Scenario, r.Algorithm, r.Key}
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, Group{r.Scenario, r.Algorithm, r.Key, nil})
		}
		groups[i].Rows = append(groups[i].Rows, r)
	}
	return groups
}

// column is one metric of the table.
type column struct {
	title  string
	digits int
	value  func(Row) float64
	// bad is how far from good a value is; nil: more is worse.
	bad func(float64) float64
}

// View says what a table shows besides what every table shows.
type View struct {
	Keys  bool     // each key has a line of its own too
	Calls bool     // reports and asks are one column
	Asks  bool     // calls that ask, the decisions that waited for them, and how long
	Users bool     // what those who send events feel
	Only  []string // titles of the columns to show; nil: all
}

// columns of the view.
func (v View) columns() []column {
	all := slices.Clone(always)
	if i := slices.IndexFunc(all, func(c column) bool { return c.title == reports }); v.Calls {
		all[i].title = "calls /host/s"
		all[i].value = func(r Row) float64 { return r.ReportsPerHostS + r.AsksPerHostS }
	}
	if v.Asks || v.Users {
		all = append(all, asking...)
	}
	if v.Users {
		all = append(all, feeling...)
	}
	if v.Only != nil {
		all = slices.DeleteFunc(all, func(c column) bool { return !slices.Contains(v.Only, c.title) })
	}
	return all
}

var asking = []column{
	{"asks /host/s", 2, func(r Row) float64 { return r.AsksPerHostS }, nil},
	{"waited %", 1, func(r Row) float64 { return r.WaitedPct }, nil},
	{"p50 ms", 1, func(r Row) float64 { return r.WaitP50Ms }, nil},
	{"p99 ms", 1, func(r Row) float64 { return r.WaitP99Ms }, nil},
}

var feeling = []column{
	{"events /host/s", 1, func(r Row) float64 { return r.EventsPerHostS }, nil},
	{"rejected %", 2, func(r Row) float64 { return r.RejectedPct }, nil},
	{"fairness", 3, func(r Row) float64 { return r.Fairness }, func(v float64) float64 { return -v }},
	{"least %", 1, func(r Row) float64 { return r.LeastPct }, func(v float64) float64 { return -v }},
	{"most %", 1, func(r Row) float64 { return r.MostPct }, nil},
	{"saturated %", 0, func(r Row) float64 { return r.SaturatedPct }, nil},
}

const reports = "reports /host/s"

var always = []column{
	{"utilisation %", 1, func(r Row) float64 { return r.UtilisationPct }, func(v float64) float64 { return math.Abs(v - 100) }},
	{"false rejects %", 2, func(r Row) float64 { return r.FalseRejectPct }, nil},
	{"over %", 1, func(r Row) float64 { return r.OverPct }, nil},
	{"over later %", 1, func(r Row) float64 { return r.OverLaterPct }, nil},
	{"settle s", 1, func(r Row) float64 {
		if r.SettleS == nil {
			return math.NaN()
		}
		return *r.SettleS
	}, nil},
	{reports, 2, func(r Row) float64 { return r.ReportsPerHostS }, nil},
	{"bytes /host/s", 0, func(r Row) float64 { return r.BytesPerHostS }, nil},
}

// Median is the median of a figure of the group's rows.
func (g Group) Median(value func(Row) float64) float64 {
	_, median := g.worstAndMedian(column{value: value})
	return median
}

// worstAndMedian returns the worst and the median of the group's values in a
// column.
func (g Group) worstAndMedian(c column) (worst, median float64) {
	bad := c.bad
	if bad == nil {
		bad = func(v float64) float64 { return v }
	}
	var values []float64
	for _, r := range g.Rows {
		values = append(values, c.value(r))
	}
	worst = values[0]
	for _, v := range values {
		if bad(v) > bad(worst) {
			worst = v
		}
	}
	slices.Sort(values)
	n := len(values)
	return worst, (values[(n-1)/2] + values[n/2]) / 2
}

// cells are the group's row in a table.
func (g Group) cells(columns []column) []string {
	cells := []string{g.Scenario, g.Algorithm}
	for _, c := range columns {
		worst, median := g.worstAndMedian(c)
		cell := number(worst, c.digits)
		if m := number(median, c.digits); len(g.Rows) > 1 && m != cell {
			cell += " (" + m + ")"
		}
		cells = append(cells, cell)
	}
	return cells
}

// number writes v with so many digits behind the point; – for NaN.
func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	s := fmt.Sprintf("%.*f", digits, v)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

func header(columns []column) []string {
	titles := []string{"scenario", "algorithm"}
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	return titles
}

// Wholes are the groups that stand for whole runs: the only key, or all together.
func Wholes(groups []Group) []Group { return rowsOf(groups, false) }

// rowsOf are the groups that a table shows: one per run, unless each key is
// wanted.
func rowsOf(groups []Group, keys bool) []Group {
	whole := make(map[[2]string]bool)
	for _, g := range groups {
		if g.Key == AllKeys {
			whole[[2]string{g.Scenario, g.Algorithm}] = true
		}
	}
	var shown []Group
	for _, g := range groups {
		many := whole[[2]string{g.Scenario, g.Algorithm}]
		switch {
		case many && keys:
			g.Scenario += " " + g.Key
		case many && g.Key != AllKeys:
			continue
		}
		shown = append(shown, g)
	}
	return shown
}

// WriteTable writes groups as aligned text: of each metric the worst of all
// seeds, and the median in parentheses if it differs.
func WriteTable(w io.Writer, groups []Group, v View) error {
	columns := v.columns()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header(columns), "\t"))
	for _, g := range rowsOf(groups, v.Keys) {
		fmt.Fprintln(t, strings.Join(g.cells(columns), "\t"))
	}
	return t.Flush()
}

// WriteMarkdown is WriteTable, as a table in Markdown. The scenario is named
// in its first line only.
func WriteMarkdown(w io.Writer, groups []Group, v View) error {
	columns := v.columns()
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(header(columns))
	b.WriteString("|---|---" + strings.Repeat("|--:", len(columns)) + "|\n")
	last := ""
	for _, g := range rowsOf(groups, v.Keys) {
		cells := g.cells(columns)
		if cells[0] == last {
			cells[0] = ""
		} else {
			last = cells[0]
		}
		line(cells)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

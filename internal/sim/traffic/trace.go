// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trace is recorded traffic, in order of time.
type Trace struct {
	Hosts []string // in the order in which they first appear
	Keys  []string // likewise
	Rows  []TraceRow

	// Open reads rows from elsewhere, from the first on; nil: they are Rows. It is
	// safe for concurrent use.
	Open func() RowReader
}

// RowReader returns the next row of a trace; false if there is none.
type RowReader func() (TraceRow, bool, error)

// Read returns what reads the rows, from the first on.
func (t *Trace) Read() RowReader {
	if t.Open != nil {
		return t.Open()
	}
	next := 0
	return func() (TraceRow, bool, error) {
		if next == len(t.Rows) {
			return TraceRow{}, false, nil
		}
		next++
		return t.Rows[next-1], true, nil
	}
}

// TraceRow is one event.
type TraceRow struct {
	At        Time
	Host, Key int32
	Cost      int64
}

// Bounds of a trace.
const (
	MaxDuration  = 7 * 24 * time.Hour
	MaxCost      = 1e9
	MaxTraceRows = 20_000_000
	maxTraceLine = 4096
)

const traceHeader = "time_s,host,key,cost"

// ParseTrace reads a trace: CSV with the header `time_s,host,key,cost` and one
// event per line, in any order. Times are seconds, 0 or more, with a fraction
// if need be; costs are whole numbers. Quotes are not needed: a field ends at
// a comma. Lines that begin with # and empty ones are comments. Name is for
// messages.
func ParseTrace(name string, r io.Reader) (*Trace, error) {
	t := &Trace{}
	hosts, keys := make(map[string]int32), make(map[string]int32)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxTraceLine), maxTraceLine)
	n, header := 0, false
	for lines.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		if !header {
			if compact := strings.ReplaceAll(line, " ", ""); compact != traceHeader {
				return nil, fmt.Errorf("%s:%d: begins with %.60q: write the header %s", name, n, line, traceHeader)
			}
			header = true
			continue
		}
		row, host, key, err := traceLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if len(t.Rows) == MaxTraceRows {
			return nil, fmt.Errorf("%s:%d: more than %d events: cut the trace into several", name, n, MaxTraceRows)
		}
		row.Host = intern(hosts, &t.Hosts, host)
		row.Key = intern(keys, &t.Keys, key)
		t.Rows = append(t.Rows, row)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: a line of more than %d bytes: is this a CSV file?", name, n+1, maxTraceLine)
	case err != nil:
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	case len(t.Rows) == 0:
		return nil, fmt.Errorf("%s: has no events: write the header %s and one event per line, as in 1.5,host-0,frontend:orders,1", name, traceHeader)
	}
	byTime := func(a, b TraceRow) int { return int(min(max(a.At-b.At, -1), 1)) }
	if !slices.IsSortedFunc(t.Rows, byTime) {
		slices.SortStableFunc(t.Rows, byTime)
	}
	return t, nil
}

// traceLine reads one event.
func traceLine(line string) (row TraceRow, host, key string, err error) {
	fields := strings.Split(line, ",")
	if len(fields) != 4 {
		return row, "", "", fmt.Errorf("%d fields in %.60q: write %s", len(fields), line, traceHeader)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	seconds, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || !(seconds >= 0 && seconds <= MaxDuration.Seconds()) {
		return row, "", "", fmt.Errorf("time_s is %.40q: write seconds since the start, 0 to %g", fields[0], MaxDuration.Seconds())
	}
	row.At = Time(math.Round(seconds * float64(time.Second)))
	row.Cost, err = strconv.ParseInt(fields[3], 10, 64)
	if err != nil || row.Cost < 1 || row.Cost > MaxCost {
		return row, "", "", fmt.Errorf("cost is %.40q: write a whole number, 1 to %g", fields[3], float64(MaxCost))
	}
	if fields[1] == "" || fields[2] == "" {
		return row, "", "", fmt.Errorf("host is %.40q and key is %.40q: write both", fields[1], fields[2])
	}
	return row, fields[1], fields[2], nil
}

// intern returns the number of text, which is a new one if it is new.
func intern(numbers map[string]int32, all *[]string, text string) int32 {
	n, ok := numbers[text]
	if !ok {
		n = int32(len(*all))
		text = strings.Clone(text)
		numbers[text] = n
		*all = append(*all, text)
	}
	return n
}

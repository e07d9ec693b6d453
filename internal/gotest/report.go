// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// report turns events into lines for people.
type report struct {
	mu sync.Mutex // protects following fields

	out io.Writer

	// written is what each test wrote that has not ended yet.
	written map[[2]string]*bytes.Buffer
	skipped []string
	// broken holds packages in which a test failed, and so was counted.
	broken map[string]bool

	passed, failed, packages int

	// took is how long packages took, in seconds; those from the cache are not
	// in it.
	took map[string]float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, written: make(map[[2]string]*bytes.Buffer), broken: make(map[string]bool), took: make(map[string]float64)}
}

// read reports each event of events until their end. Lines that are no
// events, such as what a broken go.mod makes go print, pass through. Several runs may be read at once.
func (r *report) read(events io.Reader) error {
	in := bufio.NewReader(events)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) == nil {
		r.add(e)
	} else {
		fmt.Fprint(r.out, string(line))
	}
}

func (r *report) add(e event) {
	id := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output(id, e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(id, e)
		}
	}
}

func (r *report) output(id [2]string, e event) {
	switch {
	case strings.HasPrefix(e.Output, "=== "):
	case e.Test == "":
		// PASS alone says nothing that the package's own line does not.
		if e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
			fmt.Fprint(r.out, e.Output)
		}
	default:
		if r.written[id] == nil {
			r.written[id] = new(bytes.Buffer)
		}
		r.written[id].WriteString(e.Output)
	}
}

func (r *report) endTest(id [2]string, e event) {
	var wrote string
	if b := r.written[id]; b != nil {
		wrote = b.String()
	}
	delete(r.written, id)
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "pass":
		if top {
			r.passed++
			fmt.Fprintf(r.out, "--- PASS: %s (%.2fs)\n", e.Test, e.Elapsed)
		}
	case "fail":
		if top {
			r.failed++
			r.broken[e.Package] = true
		}
		fmt.Fprint(r.out, wrote)
	case "skip":
		fmt.Fprint(r.out, wrote)
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(wrote)))
	}
}

// endPackage also reports what tests wrote that never ended: a panic or a
// timeout ends the package and not them.
func (r *report) endPackage(e event) {
	if e.Action != "skip" {
		r.packages++
		r.took[e.Package] = e.Elapsed
	}
	if e.Action == "fail" && !r.broken[e.Package] {
		r.failed++
	}
	var left [][2]string
	for id := range r.written {
		if id[0] == e.Package {
			left = append(left, id)
		}
	}
	slices.SortFunc(left, func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
	for _, id := range left {
		fmt.Fprintf(r.out, "--- DID NOT END: %s\n%s", id[1], r.written[id])
		delete(r.written, id)
	}
}

// end sums up a run that took so long, and so much of the processors' time. Its
// last line says in numbers what ran.
func (r *report) end(wall, processors time.Duration) {
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.out, "\n!!! SKIPPED, so not shown to work:\n")
		for _, s := range r.skipped {
			fmt.Fprintln(r.out, "!!!  ", s)
		}
	}
	fmt.Fprintf(r.out, "\ntook %v, and %v of the processors'; most in %s\n", wall.Round(time.Second), processors.Round(time.Second), r.slowest())
	word := "ok"
	if r.failed > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(r.out, "%s: %d tests passed in %d packages, %d failures, %d skipped\n", word, r.passed, r.packages, r.failed, len(r.skipped))
}

// slowest are the packages that took longest.
func (r *report) slowest() string {
	names := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.took[b], r.took[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names[:min(5, len(names))] {
		words = append(words, fmt.Sprintf("%s (%.0fs)", strings.TrimPrefix(name, "github.com/headgate/headgate/"), r.took[name]))
	}
	return strings.Join(words, ", ")
}

// reason is what a skipped test said, on one line.
func reason(wrote string) string {
	var said []string
	for line := range strings.Lines(wrote) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

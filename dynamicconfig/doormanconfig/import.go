// SPDX-License-Identifier: Apache-2.0

package doormanconfig

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/render"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// Bounds of limits files that Doorman's have not.
const (
	maxDescription = 4096
	maxDuration    = 24 * time.Hour
)

// prototext finds how a resource begins in a config that is a protocol buffer as text.
var prototext = regexp.MustCompile(`(?m)^[ \t]*resources[ \t]*:?[ \t]*(<|\{[ \t]*(identifier_glob|$))`)

// Import reads a Doorman resource config in YAML, of at most
// dynamicconfig.MaxSize bytes, and returns the limits file of the same
// meaning; the package's documentation says how far it is the same. name is
// for messages, usually the file's path. The error joins a
// *dynamicconfig.Error, with line, column and a caret, for each mistake, at
// most 20.
func Import(name string, data []byte) ([]byte, error) {
	if len(data) > dynamicconfig.MaxSize {
		return nil, &dynamicconfig.Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", len(data), dynamicconfig.MaxSize)}
	}
	if at := prototext.FindIndex(data); at != nil {
		source, _, _ := strings.Cut(string(data[at[0]:]), "\n")
		return nil, &dynamicconfig.Error{
			Name: name, Line: 1 + bytes.Count(data[:at[0]], []byte("\n")), Column: 1, Source: source,
			Message: "is a protocol buffer as text, as Doorman's first servers read it: write it in YAML, resources: with a list of items such as - {identifier_glob: a, capacity: 100}",
		}
	}
	f := strictyaml.NewFile(data, strictyaml.Dialect{
		Share:     "write the fields where they are needed",
		Reference: "Doorman's documentation",
		Empty:     "a Doorman config has resources: with a list",
	})
	var resources []resource
	if root := f.Parse(); root != nil {
		resources = reader{f}.resources(root)
	}
	err := f.Err(func(at strictyaml.Mark, message, source string) error {
		return &dynamicconfig.Error{Name: name, Line: at.Line, Column: at.Column, Message: message, Source: source}
	})
	if err != nil {
		return nil, err
	}
	out := write(resources)
	if _, err := dynamicconfig.Parse("the result", out); err != nil {
		return nil, &dynamicconfig.Error{Name: name, Message: fmt.Sprintf("became limits that are refused, which is a defect of headgate: %v", err)}
	}
	return out, nil
}

// write makes the limits file.
func write(resources []resource) []byte {
	w := &writer{byDefault: resources[len(resources)-1].algorithm}
	w.line(0, "# Made of a Doorman resource config by `headgate limits import --from doorman`.")
	w.line(0, "#")
	w.line(0, "# Capacities are taken for events per second. Where one is of what may be in flight at once,")
	w.line(0, "# write it as in `limit: 100 in-flight`.")
	ordered := slices.Clone(resources)
	slices.SortStableFunc(ordered, func(a, b resource) int { return b.glob.slashes - a.glob.slashes })
	w.line(0, "#")
	w.line(0, "# In Doorman, * and ? do not match a /. Here they do, so names that no resource matches there")
	w.line(0, "# because of a / have a limit here.")
	if !slices.EqualFunc(ordered, resources, func(a, b resource) bool { return a.at == b.at }) {
		w.line(0, "# Rules are not in the order of the resources: those with more slashes come first, so that")
		w.line(0, "# each name gets the same one as there.")
	}
	w.defaults(resources)
	w.line(0, "limits:")
	for _, r := range ordered {
		w.rule(r)
	}
	return []byte(w.String())
}

// writer writes a limits file.
type writer struct {
	strings.Builder
	byDefault *algorithm // that of "*"
}

func (w *writer) line(indent int, format string, args ...any) {
	w.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(&w.Builder, format, args...)
	w.WriteByte('\n')
}

// defaults are those of Doorman, and make the cluster report often enough for the
// shortest lease.
func (w *writer) defaults(resources []resource) {
	w.line(0, "defaults:")
	w.line(2, "# Doorman shares alike whatever the priority: its servers ask with 1 for clients that say 0.")
	w.line(2, "# Remove this line to serve higher priorities first.")
	w.line(2, "one_band: true")
	w.line(2, "recalculate: 0s # each request is decided anew, so that new clients do not wait")
	shortest := maxDuration
	for _, r := range resources {
		shortest = min(shortest, w.algorithmOf(r).lease)
	}
	if shortest > 3*time.Second {
		return
	}
	w.line(2, "# The shortest lease is %s, and must be longer than this.", duration(shortest))
	w.line(2, "update_interval: 500ms")
}

func (w *writer) algorithmOf(r resource) *algorithm {
	if r.algorithm == nil {
		return w.byDefault
	}
	return r.algorithm
}

func (w *writer) rule(r resource) {
	w.line(2, "- key: %s", render.Scalar(r.glob.key))
	if r.glob.runes {
		w.line(4, "# A ? or a class in the key is one byte here, and one character there.")
	}
	if r.glob.slash {
		w.line(4, "# A class in the key has the / in it: here, rules with more slashes come before this one.")
	}
	if d := r.description; d != "" {
		if len(d) > maxDescription {
			d = d[:maxDescription]
			for !utf8.ValidString(d) {
				d = d[:len(d)-1]
			}
			w.line(4, "# The description is cut; there it has %d bytes.", len(r.description))
		}
		w.line(4, "description: %s", render.Scalar(d))
	}
	w.line(4, "limit: %s/s", decimal(r.capacity))
	w.fallback(r)
	if r.algorithm == nil {
		w.line(4, `# It has no algorithm there, and so that of "*".`)
	}
	w.algorithm(w.algorithmOf(r))
}

// fallback writes what becomes of a host without a lease. Without a safe
// capacity it is an equal part, here and there.
func (w *writer) fallback(r resource) {
	switch {
	case r.safe == nil:
	case *r.safe == unlimited:
		w.line(4, "fallback: open # safe_capacity: -1")
	case *r.safe == 0:
		w.line(4, "fallback: closed # safe_capacity: 0")
	default:
		w.line(4, "fallback: safe")
		w.line(4, "safe_capacity: %s/s", decimal(*r.safe))
	}
}

func (w *writer) algorithm(a *algorithm) {
	w.line(4, "algorithm: %s", a.kind)
	for _, p := range a.parameters {
		w.line(4, "# Not carried over is the parameter %s: %s. Theirs have no meaning here.", message.Quote(p.name), message.Quote(p.value))
	}
	lease := min(a.lease, maxDuration)
	if w.line(4, "lease: %s", duration(lease)); lease < a.lease {
		w.line(4, "# There it is %s; this is the longest that is possible here.", duration(a.lease))
	}
	refresh := min(a.refresh, lease/2)
	if w.line(4, "refresh: %s", duration(refresh)); refresh < a.refresh {
		w.line(4, "# There it is %s; this is half of the lease, so that one lost answer loses no lease.", duration(a.refresh))
	}
	if a.learning == nil {
		return // the lease's length, there and here
	}
	learning := min(max(*a.learning, 0), maxDuration)
	if w.line(4, "learning: %s", duration(learning)); learning < *a.learning {
		w.line(4, "# There it is %s; this is the longest that is possible here.", duration(*a.learning))
	}
}

// decimal writes f without an exponent where that is short.
func decimal(f float64) string {
	if s := strconv.FormatFloat(f, 'f', -1, 64); len(s) <= 16 {
		return s
	}
	return quantity.Number(f)
}

// duration writes d in seconds, as Doorman has them, or exactly if it is not
// whole.
func duration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return d.String()
}

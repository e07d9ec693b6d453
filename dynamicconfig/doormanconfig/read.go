// SPDX-License-Identifier: Apache-2.0

package doormanconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// resource is one resource template of Doorman's.
type resource struct {
	at          strictyaml.Mark // of its glob
	identifier  string
	glob        glob
	capacity    float64
	safe        *float64
	description string
	algorithm   *algorithm // nil: that of "*"
}

// algorithm is how a resource is shared.
type algorithm struct {
	kind           string // our name of it
	lease, refresh time.Duration
	learning       *time.Duration
	parameters     []parameter
}

type parameter struct{ name, value string }

var (
	kinds     = []string{"NO_ALGORITHM", "STATIC", "PROPORTIONAL_SHARE", "FAIR_SHARE"}
	kindNames = []string{"none", "static", "proportional-share", "fair-share"}

	knownTop       = []string{"resources"}
	knownResource  = []string{"algorithm", "capacity", "description", "identifier_glob", "safe_capacity"}
	knownAlgorithm = []string{"kind", "learning_mode_duration", "lease_length", "parameters", "refresh_interval"}
	knownParameter = []string{"name", "value"}
)

// Bounds of a capacity, which are those of a limit: the smallest is about
// what makes one event in three years.
const (
	leastCapacity = 1e-8
	mostCapacity  = rule.MaxLimit
)

// unlimited is the safe capacity of a client that may do what it wants.
const unlimited = -1

// maxSeconds is what fits a time.Duration.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// reader walks the tree of a Doorman config.
type reader struct{ *strictyaml.File }

func (r reader) resources(root ast.Node) []resource {
	fields, ok := r.Mapping(root, "the file", knownTop)
	n := strictyaml.Find(fields, "resources")
	if !ok || n == nil {
		if ok && len(fields) == 0 {
			r.Add(strictyaml.Place(root), "the file: has no resources: add resources: with a list")
		}
		return nil
	}
	var all []resource
	seen := make(map[string]int)
	for i, item := range r.List(n, "resources", "a list, each resource beginning with - identifier_glob:") {
		if r.Exhausted() {
			return nil
		}
		res, ok := r.resource(item, i)
		if !ok {
			continue
		}
		if line, twice := seen[res.glob.key]; twice {
			r.Add(res.at, "resource %s: matches what the one in line %d matches, which comes first: remove this one", message.Quote(res.identifier), line)
			continue
		}
		seen[res.glob.key] = res.at.Line
		all = append(all, res)
	}
	r.checkLast(n, all)
	return all
}

// checkLast wants what Doorman wants: a "*" at the end, with an algorithm.
func (r reader) checkLast(list ast.Node, all []resource) {
	for i, res := range all {
		if res.identifier != "*" {
			continue
		}
		if i+1 < len(all) {
			r.Add(res.at, `resource "*": is not the last, and Doorman wants it there: move it to the end`)
		}
		if res.algorithm == nil {
			r.Add(res.at, `resource "*": has no algorithm, which is the default of all others: add one`)
		}
		return
	}
	if !r.Any() {
		r.Add(strictyaml.Place(list), `resources: has no "*", which Doorman wants at the end: add identifier_glob: "*" with a capacity and an algorithm`)
	}
}

// resource reads one template; ok is whether its glob is known.
func (r reader) resource(n ast.Node, i int) (res resource, ok bool) {
	who := fmt.Sprintf("resource number %d", i+1)
	fields, isMap := r.Mapping(n, who, knownResource)
	if !isMap {
		return res, false
	}
	id := strictyaml.Find(fields, "identifier_glob")
	if id == nil {
		r.Add(strictyaml.Place(n), "%s: has no identifier_glob: add one", who)
	} else if res.identifier, ok = r.text(id, who+": identifier_glob"); ok {
		who = "resource " + message.Quote(res.identifier)
		res.at = strictyaml.Place(id)
		ok = r.glob(&res, who)
	}
	if c := strictyaml.Find(fields, "capacity"); c == nil {
		r.Add(strictyaml.Place(n), "%s: has no capacity: add one", who)
	} else if f, ok := r.number(c, who+": capacity"); ok && r.inRange(c, who+": capacity", f) {
		res.capacity = f
	}
	if s := strictyaml.Find(fields, "safe_capacity"); s != nil {
		if f, ok := r.number(s, who+": safe_capacity"); ok && (f == unlimited || r.inRange(s, who+": safe_capacity", f)) {
			res.safe = &f
		}
	}
	if d := strictyaml.Find(fields, "description"); d != nil {
		res.description, _ = r.text(d, who+": description")
	}
	if a := strictyaml.Find(fields, "algorithm"); a != nil {
		res.algorithm = r.algorithm(a, who+": algorithm")
	}
	return res, ok
}

func (r reader) glob(res *resource, who string) bool {
	var err error
	res.glob, err = translate(res.identifier)
	switch {
	case err != nil:
		r.Add(res.at, "%s: identifier_glob: %v", who, err)
	case res.glob.key == "":
		r.Add(res.at, "%s: identifier_glob: is empty: write one", who)
	case len(res.glob.key) > rule.MaxKeyLength:
		r.Add(res.at, "%s: identifier_glob: has %d bytes here: use at most %d", who, len(res.glob.key), rule.MaxKeyLength)
	default:
		return true
	}
	return false
}

// algorithm reads one; it is never nil, so that a bad one is not taken for
// none.
func (r reader) algorithm(n ast.Node, who string) *algorithm {
	a := new(algorithm)
	fields, ok := r.Mapping(n, who, knownAlgorithm)
	if !ok {
		return a
	}
	for _, name := range []string{"kind", "lease_length", "refresh_interval"} {
		if strictyaml.Find(fields, name) == nil {
			r.Add(strictyaml.Place(n), "%s: has no %s: add one", who, name)
		}
	}
	for _, f := range fields {
		who := who + "." + f.Name
		switch f.Name {
		case "kind":
			a.kind = r.kind(f.Value, who)
		case "lease_length":
			a.lease = r.atLeastOne(f.Value, who)
		case "refresh_interval":
			a.refresh = r.atLeastOne(f.Value, who)
		case "learning_mode_duration":
			if d, ok := r.seconds(f.Value, who); ok {
				a.learning = &d
			}
		case "parameters":
			a.parameters = r.parameters(f.Value, who)
		}
	}
	if a.lease > 0 && a.refresh > a.lease {
		r.Add(strictyaml.Place(strictyaml.Find(fields, "refresh_interval")), "%s.refresh_interval: %v is longer than lease_length, which is %v: Doorman refuses that", who, a.refresh, a.lease)
	}
	return a
}

// kind is our name of an algorithm, which is given by name or by number.
func (r reader) kind(n ast.Node, who string) string {
	text, _, ok := strictyaml.Plain(r.Resolve(n))
	for i, k := range kinds {
		if ok && (text == k || text == strconv.Itoa(i)) {
			return kindNames[i]
		}
	}
	if !r.empty(n) {
		r.Add(strictyaml.Place(n), "%s: is %s: %s", who, r.Kind(n), message.Suggest(text, kinds))
	}
	return ""
}

func (r reader) parameters(n ast.Node, who string) []parameter {
	if r.empty(n) {
		return nil
	}
	var all []parameter
	for _, item := range r.List(n, who, "a list, as in [{name: n, value: v}]") {
		fields, ok := r.Mapping(item, who, knownParameter)
		if !ok {
			continue
		}
		var p parameter
		name := strictyaml.Find(fields, "name")
		if name == nil {
			r.Add(strictyaml.Place(item), "%s: has no name: add one", who)
			continue
		}
		p.name, _ = r.text(name, who+": name")
		if v := strictyaml.Find(fields, "value"); v != nil && !r.empty(v) {
			text, _, ok := strictyaml.Plain(r.Resolve(v))
			if !ok {
				r.Add(strictyaml.Place(v), "%s: value: is %s: write text", who, r.Kind(v))
			}
			p.value = text
		}
		all = append(all, p)
	}
	return all
}

// empty reports whether n is a field without a value, which Mapping has reported.
func (r reader) empty(n ast.Node) bool {
	v := r.Resolve(n)
	return v != nil && v.Type() == ast.NullType
}

func (r reader) text(n ast.Node, who string) (string, bool) {
	v := r.Resolve(n)
	text, _, _ := strictyaml.Plain(v)
	switch v.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return text, true
	}
	if !r.empty(n) {
		r.Add(strictyaml.Place(n), "%s: is %s: write %s", who, r.Kind(n), r.WantText(n))
	}
	return "", false
}

func (r reader) number(n ast.Node, who string) (float64, bool) {
	text, quoted, ok := strictyaml.Plain(r.Resolve(n))
	f, err := quantity.ParseNumber(text)
	if ok && !quoted && err == nil {
		return f, r.inBase10(n, who, text)
	}
	if !r.empty(n) {
		r.Add(strictyaml.Place(n), "%s: is %s: write a number, as in 500", who, r.Kind(n))
	}
	return 0, false
}

// inBase10 reports whether Doorman reads the number text in base 10: 010 is 8 there.
func (r reader) inBase10(n ast.Node, who, text string) bool {
	digits := strings.TrimLeft(text, "+-")
	if len(digits) < 2 || digits[0] != '0' || strings.Trim(digits, "01234567") != "" {
		return true
	}
	r.Add(strictyaml.Place(n), "%s: is %s, which Doorman reads in base 8: write the number that is meant, without a 0 before it", who, text)
	return false
}

func (r reader) inRange(n ast.Node, who string, f float64) bool {
	if f == 0 || f >= leastCapacity && f <= mostCapacity {
		return true
	}
	r.Add(strictyaml.Place(n), "%s: %s is out of range: use %s to %s, or 0", who, quantity.Number(f), quantity.Number(leastCapacity), quantity.Number(mostCapacity))
	return false
}

// seconds reads whole seconds.
func (r reader) seconds(n ast.Node, who string) (time.Duration, bool) {
	text, quoted, ok := strictyaml.Plain(r.Resolve(n))
	s, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 10, 64)
	if ok && !quoted && err == nil {
		s = min(max(s, -maxSeconds), maxSeconds)
		return time.Duration(s) * time.Second, r.inBase10(n, who, text)
	}
	if !r.empty(n) {
		r.Add(strictyaml.Place(n), "%s: is %s: write whole seconds, as in 60", who, r.Kind(n))
	}
	return 0, false
}

func (r reader) atLeastOne(n ast.Node, who string) time.Duration {
	d, ok := r.seconds(n, who)
	if ok && d < time.Second {
		r.Add(strictyaml.Place(n), "%s: %v is out of range: use 1 or more", who, d)
		return 0
	}
	return d
}

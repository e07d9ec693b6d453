// SPDX-License-Identifier: Apache-2.0

package quotaserviceconfig

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// config is a whole config of quotaservice.
type config struct {
	global     *bucket
	namespaces []namespace
	from       []string // what it says of itself
}

// namespace has at most one of fallback and template.
type namespace struct {
	name       string
	fallback   *bucket // its default bucket
	template   *bucket
	maxDynamic int64 // 0: no bound
	buckets    []bucket
}

// bucket has its defaults filled in. Times are in milliseconds.
type bucket struct {
	name           string
	size, fillRate int64
	wait, debt     int64
	idle           int64 // below 0: never
	maxTokens      int64
	unbounded      bool // maxTokens is the most that is possible here, as there is no bound
}

var (
	knownTop       = []string{"date", "global_default_bucket", "namespaces", "user", "version"}
	knownNamespace = []string{"buckets", "default_bucket", "dynamic_bucket_template", "max_dynamic_buckets", "name"}
	knownBucket    = []string{"fill_rate", "max_debt_millis", "max_idle_millis", "max_tokens_per_request", "name", "namespace", "size", "wait_timeout_millis"}
)

// most bounds what is counted in tokens, as in a limits file.
const most = int64(rule.MaxLimit)

// reader walks the tree of a quotaservice config.
type reader struct {
	*strictyaml.File

	json bool // it has no default of max_tokens_per_request
}

func (r reader) config(root ast.Node) (c config) {
	fields, ok := r.Mapping(root, "the file", knownTop)
	if !ok {
		return c
	}
	for _, f := range fields {
		switch f.Name {
		case "global_default_bucket":
			c.global = r.bucket(f, f.Name)
		case "namespaces":
			c.namespaces = r.namespaces(f.Value)
		default:
			if text, _, ok := strictyaml.Plain(r.Resolve(f.Value)); ok {
				c.from = append(c.from, f.Name+" "+message.Quote(text))
			} else if !r.empty(f.Value) {
				r.Add(strictyaml.Place(f.Value), "%s: is %s: write text or a number", f.Name, r.Kind(f.Value))
			}
		}
	}
	return c
}

func (r reader) namespaces(n ast.Node) (all []namespace) {
	if r.empty(n) {
		return nil
	}
	fields, _ := r.Mapping(n, "namespaces", nil)
	for _, f := range fields {
		if r.Exhausted() {
			return nil
		}
		if ns, ok := r.namespace(f); ok {
			all = append(all, ns)
		}
	}
	return all
}

func (r reader) namespace(of strictyaml.Field) (ns namespace, ok bool) {
	who := "namespace " + message.Quote(of.Name)
	ns.name = of.Name
	switch {
	case r.empty(of.Value):
		return ns, false
	case of.Name == "":
		r.Add(strictyaml.Place(of.Value), "namespaces: has one without a name: give it one")
		return ns, false
	}
	fields, ok := r.Mapping(of.Value, who, knownNamespace)
	for _, f := range fields {
		who := who + ": " + f.Name
		switch f.Name {
		case "buckets":
			ns.buckets = r.buckets(f.Value, &ns, who)
		case "default_bucket":
			ns.fallback = r.bucket(f, who)
		case "dynamic_bucket_template":
			ns.template = r.bucket(f, who)
		case "max_dynamic_buckets":
			ns.maxDynamic = max(r.whole(f.Value, who, math.MinInt32, math.MaxInt32), 0)
		}
	}
	if ns.fallback != nil && ns.template != nil {
		r.Add(strictyaml.Place(strictyaml.Find(fields, "default_bucket")), "%s: has a default_bucket and a dynamic_bucket_template, which quotaservice refuses: remove one", who)
	}
	return ns, ok
}

func (r reader) buckets(n ast.Node, of *namespace, who string) (all []bucket) {
	if r.empty(n) {
		return nil
	}
	fields, _ := r.Mapping(n, who, nil)
	for _, f := range fields {
		if r.Exhausted() {
			return nil
		}
		who := "bucket " + message.Quote(of.name+":"+f.Name)
		if f.Name == "" {
			r.Add(strictyaml.Place(f.Value), "%s: has a bucket without a name, which no request can ask for: give it one", who)
		}
		if b := r.bucket(f, who); b != nil {
			all = append(all, *b)
		}
	}
	return all
}

// bucket reads one; nil without a value, or without a map.
func (r reader) bucket(of strictyaml.Field, who string) *bucket {
	if r.empty(of.Value) {
		return nil
	}
	fields, ok := r.Mapping(of.Value, who, knownBucket)
	if !ok {
		return nil
	}
	b := &bucket{name: of.Name, size: 100, fillRate: 50, wait: 1000, idle: -1, debt: 10_000}
	for _, f := range fields {
		who := who + ": " + f.Name
		switch f.Name {
		case "size":
			r.or(&b.size, r.whole(f.Value, who, 0, most))
		case "fill_rate":
			r.or(&b.fillRate, r.whole(f.Value, who, 0, most))
		case "wait_timeout_millis":
			r.or(&b.wait, r.whole(f.Value, who, math.MinInt64, math.MaxInt64))
		case "max_idle_millis":
			r.or(&b.idle, r.whole(f.Value, who, math.MinInt64, math.MaxInt64))
		case "max_debt_millis":
			r.or(&b.debt, r.whole(f.Value, who, 0, math.MaxInt64))
		case "max_tokens_per_request":
			r.or(&b.maxTokens, r.whole(f.Value, who, math.MinInt64, most))
		} // name and namespace are those of the maps, whatever they say
	}
	b.wait = max(b.wait, 0) // below 0: no caller waits there
	switch {
	case b.maxTokens > 0:
	case r.json || b.maxTokens < 0:
		b.maxTokens, b.unbounded = most, true
	default:
		b.maxTokens = b.fillRate
	}
	// The limits file has the same bound.
	if seconds := int64(rule.MaxRefill.Seconds()); b.size/seconds >= b.fillRate && b.size > b.fillRate*seconds {
		r.Add(strictyaml.Place(of.Value), "%s: a size of %d takes more than 10 years to fill at %d/s: use at most %d", who, b.size, b.fillRate, b.fillRate*seconds)
	}
	return b
}

// or sets v, unless it is 0, which is no value there.
func (r reader) or(to *int64, v int64) {
	if v != 0 {
		*to = v
	}
}

// whole reads a whole number; 0 when there is none.
func (r reader) whole(n ast.Node, who string, least, most int64) int64 {
	if r.empty(n) {
		return 0
	}
	text, quoted, ok := strictyaml.Plain(r.Resolve(n))
	digits := strings.TrimPrefix(text, "-")
	isWhole := ok && !quoted && digits != "" && strings.IndexFunc(digits, func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsDigit(c) }) < 0
	if !isWhole || digits != "0" && digits[0] == '0' { // which would be octal there
		r.Add(strictyaml.Place(n), "%s: is %s: write a whole number, as in 100", who, r.Kind(n))
		return 0
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || i < least || i > most {
		r.Add(strictyaml.Place(n), "%s: %.30s is out of range: use %d to %d", who, text, least, most)
		return 0
	}
	return i
}

// empty reports whether n is a field without a value, which Mapping has reported.
func (r reader) empty(n ast.Node) bool {
	if n == nil {
		return true
	}
	v := r.Resolve(n)
	return v != nil && v.Type() == ast.NullType
}

// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// decoder walks the tree of a config file and hands the builder what it
// finds. How deep it goes is fixed by the fields there are, so an alias
// cannot make it recurse.
type decoder struct {
	*build.Builder
	*strictyaml.File

	cluster rule.Properties // from another file, for settings that this one does not state
}

// scalar reads n into what to points to, or reports why it cannot.
func (d *decoder) scalar(n ast.Node, who string, to any) bool {
	return d.scalarOf(n, who, "", to)
}

// scalarOf is scalar for the field name of who.
func (d *decoder) scalarOf(n ast.Node, who, name string, to any) bool {
	v := d.Resolve(n)
	if v != nil && v.Type() == ast.NullType {
		return false // reported by mapping
	}
	text, quoted, ok := strictyaml.Plain(v)
	_, isString := v.(*ast.StringNode)
	_, isLiteral := v.(*ast.LiteralNode)
	_, isBool := v.(*ast.BoolNode)
	var err error
	want := ""
	switch to := to.(type) {
	case *string:
		if *to = text; !ok || !isString && !isLiteral {
			want = d.WantText(n)
		}
	case called:
		if *to.text = text; !ok || !isString {
			want = to.want
		}
	case plain:
		if *to.text = text; !ok {
			want = to.want
		}
	case *bool:
		if *to = strings.EqualFold(text, "true"); !ok || !isBool {
			want = "true or false"
		}
	case *float64:
		if *to, err = quantity.ParseNumber(text); !ok || quoted || err != nil {
			want = "a number, as in 2000 or 0.5"
		}
	case tokens:
		if *to.amount, err = quantity.ParseNumber(text); !ok || quoted || err != nil {
			want = "1 or more tokens, as in 2000"
		}
	case *int64:
		if *to, err = strconv.ParseInt(text, 10, 64); !ok || quoted || err != nil {
			want = "a whole number, as in 10"
		}
		if ok && !quoted && errors.Is(err, strconv.ErrRange) {
			want, err = "", fmt.Errorf("%.60s is out of range: use a whole number, as in 10", text)
		}
	case *int:
		var f float64
		if f, err = quantity.ParseNumber(text); !ok || quoted || err != nil || f != float64(int(f)) || f > 1<<53 || f < -1<<53 {
			want = "a whole number, as in 10000"
		}
		if ok && !quoted && err == nil && math.Abs(f) > 1<<53 {
			want, err = "", fmt.Errorf("%.60s is out of range: use a whole number, as in 10000", text)
		}
		*to = int(f)
	case *time.Duration:
		if !ok || isBool {
			want = "a duration, as in 500ms, 3s, 5m, 2h or 1d"
		} else {
			*to, err = quantity.ParseDuration(text)
		}
	case orNone:
		if !ok || isBool {
			want = "a duration, as in 500ms, 3s, 5m, 2h or 1d, or 0s for none"
		} else {
			*to.duration, err = parseOrNone(text)
		}
	case capacity:
		if !ok || isBool {
			want = "events per second, minute, hour or day, as in 1000/s, or 100 in-flight"
		} else {
			*to.amount, *to.inFlight, err = quantity.ParseCapacity(text)
		}
	case percent:
		if !ok || isBool {
			want = "a part in percent, as in 10%"
		} else {
			*to.part, err = quantity.ParsePercent(text)
		}
	case orSoft:
		if !ok || isBool {
			want = "a part in percent, as in 25%"
		} else {
			*to.part, err = parseOrSoft(text)
		}
	case *rule.Fallback:
		if !ok {
			want = message.OneOf(rule.FallbackNames())
		} else {
			*to, err = rule.ParseFallback(text)
		}
	case *rule.Mode:
		if !ok {
			want = message.OneOf(rule.ModeNames())
		} else {
			*to, err = rule.ParseMode(text)
		}
	}
	if name != "" && (want != "" || err != nil) {
		who += ": " + name
	}
	switch {
	case want != "":
		if _, err := quantity.ParseNumber(text); quoted && (err == nil || text == "true" || text == "false") {
			want += ", without quotes"
		}
		d.Add(strictyaml.Place(n), "%s: is %s: write %s", who, d.Kind(n), want)
	case err != nil:
		d.Add(strictyaml.Place(n), "%s: %v", who, err)
	}
	return want == "" && err == nil
}

// capacity is where scalar puts a limit in either unit.
type capacity struct {
	amount   *rate.Limit
	inFlight *bool
}

// called is where scalar puts the name of something; want is what to write instead of anything else.
type called struct {
	text *string
	want string
}

// plain is where scalar puts a scalar of any kind, as it is written; want is what to write
// instead of a map or a list.
type plain struct {
	text *string
	want string
}

// tokens is where scalar puts an amount of tokens; validation knows how many are possible.
type tokens struct{ amount *float64 }

// orNone is where scalar puts a duration whose 0 is None.
type orNone struct{ duration *time.Duration }

// parseOrNone reads a duration, and 0 as None.
func parseOrNone(text string) (time.Duration, error) {
	d, err := quantity.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, fmt.Errorf("%s is below 0: write 0s for none", message.Quote(text))
	case d == 0:
		return rule.None, nil
	}
	return d, nil
}

// percent is where scalar puts a part of the whole.
type percent struct{ part *float64 }

// orSoft is where scalar puts a part of the whole whose 0 is Soft.
type orSoft struct{ part *float64 }

// parseOrSoft reads a part in percent, and 0% as Soft.
func parseOrSoft(text string) (float64, error) {
	part, err := quantity.ParsePercent(text)
	switch {
	case err != nil:
		return 0, err
	case part < 0:
		return 0, fmt.Errorf("%s is below 0: write 0%% for none", message.Quote(text))
	case part == 0:
		return rule.Soft, nil
	}
	return part, nil
}

// anyScalar reads a string, bool, int64 or float64.
func (d *decoder) anyScalar(n ast.Node, who string) (any, bool) {
	v := d.Resolve(n)
	text, quoted, ok := strictyaml.Plain(v)
	switch {
	case v != nil && v.Type() == ast.NullType:
		return nil, false // reported by mapping
	case !ok:
		d.Add(strictyaml.Place(n), "%s: is %s: write one text, number, true or false", who, d.Kind(n))
		return nil, false
	case quoted:
		return text, true
	case v.Type() == ast.BoolType:
		return strings.EqualFold(text, "true"), true
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	if f, err := quantity.ParseNumber(text); err == nil && quantity.Finite(f) {
		return f, true
	}
	if v.Type() != ast.StringType {
		d.Add(strictyaml.Place(n), "%s: is %s: write a finite decimal number, or put text in quotes", who, d.Kind(n))
		return nil, false
	}
	return text, true
}

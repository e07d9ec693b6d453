// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/limiter/explain"
)

// functions are what the templates call; assets are the URLs of files.
func functions(assets map[string]string) template.FuncMap {
	return template.FuncMap{
		"inQuery": url.QueryEscape, // in attributes that html/template does not know to be URLs
		"asset":   func(name string) string { return assets[name] },
		"amount":  amount,
		"number":  func(v float64) string { return amount(&v) },
		"seconds": seconds,
		"percent": func(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + "%" },
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" },
		"millis":  func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"day":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" },
		"caret":   caret,
		"whole":   func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) },
		"share": func(v, all float64) string {
			if all <= 0 {
				return "0%"
			}
			return strconv.FormatFloat(100*v/all, 'f', 1, 64) + "%"
		},
		"first": func(all []lasthour.DryKey) []lasthour.DryKey { return all[:min(len(all), 10)] },
		// id is that of the row of key in the list called list: a part of a page that is asked for anew knows
		// its rows by it, so that the row that a reader is at stays the row of its key.
		"id": func(list, key string) string {
			sum := sha256.Sum256([]byte(key))
			return list + "-" + hex.EncodeToString(sum[:8])
		},
		"table": func(name string, keys []explain.Key) keyTable { return keyTable{name, keys} },
	}
}

// keyTable is a short list of keys, with its name.
type keyTable struct {
	Name string
	Keys []explain.Key
}

// leastAmount is the least that people want to read.
const leastAmount = 0.001

// amount is v for people; a dash if there is none.
func amount(v *float64) string {
	if v == nil {
		return "–"
	}
	if 0 < *v && *v < leastAmount {
		return "< " + strconv.FormatFloat(leastAmount, 'g', -1, 64)
	}
	return printable.Number(*v, 4)
}

// seconds is how long a lease still lasts; a dash if there is none.
func seconds(v float64) string {
	if v <= 0 {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " s"
}

// caret is a line with a caret below the column of m. Tabs stay tabs, so that it is below.
func caret(m reply.Mistake) string {
	var b strings.Builder
	column := 1
	for _, c := range m.Source {
		if column >= m.Column {
			break
		}
		if c != '\t' {
			c = ' '
		}
		b.WriteRune(c)
		column++
	}
	return b.String() + "^"
}

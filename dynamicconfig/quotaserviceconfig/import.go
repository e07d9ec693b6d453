// SPDX-License-Identifier: Apache-2.0

package quotaserviceconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/render"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/internal/bucketkey"
)

// Bounds of limits files that quotaservice's have not.
const (
	maxMillis  = int64(24 * time.Hour / time.Millisecond)
	maxIdle    = int64(30 * 24 * time.Hour / time.Millisecond)
	maxDynamic = 1_000_000_000
)

// maxNames is how many namespaces there may be, and how many named buckets in each.
const maxNames = 20_000

// What most buckets have, and so is among the defaults.
const (
	usualWait = 1000
	usualDebt = 10_000
)

// Import reads a quotaservice config in YAML or JSON, of at most
// dynamicconfig.MaxSize bytes, and returns the limits file of the same
// meaning; the package's documentation says how far it is the same. name is
// for messages, usually the file's path. The error joins a
// *dynamicconfig.Error, with line, column and a caret, for each mistake, at
// most 20.
func Import(name string, data []byte) ([]byte, error) {
	if len(data) > dynamicconfig.MaxSize {
		return nil, &dynamicconfig.Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", len(data), dynamicconfig.MaxSize)}
	}
	f := strictyaml.NewFile(data, strictyaml.Dialect{
		Share:     "write the fields where they are needed",
		Reference: "quotaservice's documentation",
		Empty:     "a quotaservice config has namespaces: with a map, or a global_default_bucket",
		Other:     map[string]string{"rate": "fill_rate", "limit": "fill_rate", "burst": "size", "capacity": "size"},
		Null:      isJSON(data),
		MaxFields: maxNames,
	})
	var c config
	if root := f.Parse(); root != nil {
		c = reader{f, isJSON(data)}.config(root)
	}
	err := f.Err(func(at strictyaml.Mark, message, source string) error {
		return &dynamicconfig.Error{Name: name, Line: at.Line, Column: at.Column, Message: message, Source: source}
	})
	if err != nil {
		return nil, err
	}
	out := write(c)
	if len(out) > dynamicconfig.MaxLargeSize {
		return nil, &dynamicconfig.Error{Name: name, Message: fmt.Sprintf("would become %d bytes of limits, and %d is the most: use fewer named buckets, as for those that are like a default bucket", len(out), dynamicconfig.MaxLargeSize)}
	}
	if _, err := dynamicconfig.Parse("the result", out); err != nil {
		return nil, &dynamicconfig.Error{Name: name, Message: fmt.Sprintf("became limits that are refused, which is a defect of headgate: %v", err)}
	}
	return out, nil
}

// isJSON reports whether data is a config that quotaservice reads as JSON.
func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data)
}

// write makes the limits file.
func write(c config) []byte {
	w := new(writer)
	w.line(0, "# Made of a quotaservice config by `headgate limits import --from quotaservice`.")
	if len(c.from) > 0 {
		w.line(0, "# It says of itself: %s.", strings.Join(c.from, ", "))
	}
	w.line(0, "#")
	w.line(0, "# A bucket is the key namespace:name. Each is one for the whole cluster, as those of quotaservice in")
	w.line(0, "# Redis: at the host that owns the key. With `algorithm: elastic`, no request waits for another host,")
	w.line(0, "# and what a host has of a limit follows its load.")
	w.line(0, "defaults:")
	w.line(2, "algorithm: exact")
	w.line(2, "max_wait: %s", millis(usualWait))
	w.line(2, "max_debt: %s", millis(usualDebt))
	w.line(2, "idle_after: %s # max_idle_millis: -1, which is never; a bucket that leaves is full", millis(maxIdle))
	w.line(2, "max_keys: %d", maxDynamic)
	if c.global == nil && len(c.namespaces) == 0 {
		w.line(0, "limits: []")
	} else {
		w.line(0, "limits:")
	}
	for _, ns := range c.namespaces {
		w.namespace(ns, c.global != nil)
	}
	if c.global != nil {
		w.line(2, "# The global default bucket: one for all namespaces that are not above.")
		w.shared("*", *c.global)
	}
	if !w.rules && c.global == nil && len(c.namespaces) > 0 {
		w.line(2, "[]")
	}
	w.line(0, "unmatched: deny")
	return []byte(w.String())
}

// writer writes a limits file.
type writer struct {
	strings.Builder
	rules bool // there are some
}

func (w *writer) line(indent int, format string, args ...any) {
	w.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(&w.Builder, format, args...)
	w.WriteByte('\n')
}

func (w *writer) namespace(ns namespace, global bool) {
	switch {
	case ns.template != nil || ns.fallback != nil || len(ns.buckets) > 0:
	case !global:
		w.line(2, "# The namespace %s has no buckets: all its names are denied.", message.Quote(ns.name))
	}
	for _, b := range ns.buckets {
		w.rule(literal(bucketkey.Of(ns.name, b.name)), b)
	}
	every := literal(bucketkey.Namespace(ns.name)) + "*"
	switch {
	case ns.template != nil:
		w.line(2, "# Dynamic buckets: one for each name.")
		w.rule(every, *ns.template)
		if ns.maxDynamic > 0 {
			w.line(4, "max_keys: %d", min(ns.maxDynamic, maxDynamic))
			if ns.maxDynamic > maxDynamic {
				w.line(4, "# There it is %d; this is the most that is possible here.", ns.maxDynamic)
			}
		} else {
			w.line(4, "# There is no bound, as in max_dynamic_buckets: 0. What names cost is memory: set a max_keys that")
			w.line(4, "# is possible where names come from outside.")
		}
	case ns.maxDynamic > 0:
		w.line(2, "# Not carried over from the namespace %s is max_dynamic_buckets: %d. It has no dynamic buckets.", message.Quote(ns.name), ns.maxDynamic)
	}
	if ns.fallback != nil {
		w.line(2, "# The default bucket: one for all other names.")
		w.shared(every, *ns.fallback)
	}
	if global && ns.template == nil && ns.fallback == nil {
		w.line(2, "# All other names have no bucket: the global default bucket is for unknown namespaces only. Slots,")
		w.line(2, "# of which there are none, give no tokens.")
		w.line(2, "- key: %s", render.Scalar(every))
		w.line(4, "limit: 0 in-flight")
		w.line(4, "algorithm: even")
		w.line(4, "shared: true")
	}
}

func (w *writer) shared(key string, b bucket) {
	w.rule(key, b)
	w.line(4, "shared: true")
}

func (w *writer) rule(key string, b bucket) {
	w.rules = true
	w.line(2, "- key: %s", render.Scalar(key))
	w.line(4, "limit: %d/s", b.fillRate)
	w.line(4, "burst: %d", b.size)
	w.line(4, "max_cost: %d", b.maxTokens)
	if b.unbounded {
		w.line(4, "# This is the most here. There, a max_tokens_per_request below 0 is no bound, as is none in JSON.")
	}
	w.time("max_wait", b.wait, usualWait, maxMillis)
	w.time("max_debt", b.debt, usualDebt, maxMillis)
	if b.idle >= 0 {
		w.time("idle_after", b.idle, maxIdle, maxIdle)
	}
}

// time writes a field that is not as usual.
func (w *writer) time(field string, v, usual, most int64) {
	if capped := min(v, most); capped != usual {
		w.line(4, "%s: %s", field, millis(capped))
	}
	if v > most {
		w.line(4, "# There it is %d ms; %s is the longest that is possible here.", v, field)
	}
}

// literal is the key as a pattern that matches it alone.
func literal(key string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(key)
}

// millis writes a time as a limits file has it.
func millis(v int64) string {
	switch {
	case v == 0:
		return "0s"
	case v%(24*3600*1000) == 0:
		return strconv.FormatInt(v/(24*3600*1000), 10) + "d"
	case v%1000 == 0:
		return strconv.FormatInt(v/1000, 10) + "s"
	}
	return strconv.FormatInt(v, 10) + "ms"
}

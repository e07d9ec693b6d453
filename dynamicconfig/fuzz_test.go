// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Parse never panics, is never slow, and what it takes is valid; what it
// refuses, it refuses at a place that the file has.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/broken/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("defaults: {overcommit: 10%}\nlimits: [{key: a, limit: 9 in-flight, priorities: {-1: static}, parameters: {x: 1}, learning: 0s}]\n"))
	f.Add([]byte("defaults: {lease: &d 20s}\nlimits:\n  - key: \"a:*\"\n    limit: 5/m\n    idle_after: *d\nunmatched: deny\nproperties: {a: 1.5}\n"))
	f.Add([]byte("limits: [{key: a, limit: 10000/d}]\noverrides: [{key: a, limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: r}, {all: true, limit: bypass, until: 2026-11-23T05:00:00+01:00, author: \"ada\", reason: r}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		s, err := Parse("f", data)
		if d := time.Since(began); d > time.Minute {
			t.Fatalf("took %v", d)
		}
		if (s == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", s, err)
		}
		if err != nil {
			one := new(Error)
			if !errors.As(err, &one) || one.Message == "" {
				t.Fatalf("no *Error in %v", err)
			}
			if one.Line < 0 || one.Line > strings.Count(string(data), "\n")+2 || one.Column < 0 {
				t.Fatalf("the file has no %d:%d", one.Line, one.Column)
			}
			_ = err.Error()
			return
		}
		for _, r := range s.Rules() {
			if !(r.Limit >= 0 && r.Limit <= rule.MaxLimit && r.Burst <= rule.MaxBurst && r.Refresh > 0 && r.Refresh <= r.Lease/2 && r.Overcommit <= 1) || r.Lease <= 0 || r.Key == "" {
				t.Fatalf("rule = %+v", r)
			}
			s.Match(r.Key)
		}
		s.Match("any:key")
		if again, err := (Config{Properties: s.Properties(), Rules: s.Rules()}).Snapshot(); err != nil {
			t.Fatalf("its rules are refused: %v", err)
		} else if !reflect.DeepEqual(again.Rules(), s.Rules()) {
			t.Fatal("its rules are others")
		}
		if again, err := Parse("again", s.YAML()); err != nil || again.Version() != s.Version() {
			t.Fatalf("what it writes is another configuration: %v\n%s", err, s.YAML())
		}
	})
}

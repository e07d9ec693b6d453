// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

const written = `# by ada
defaults: {fallback: closed}

limits: # all of them
  # orders are agreed with billing
  - key: "orders"   # the shop
    limit: 100/s    # peak
    burst: 200

  # one for each user
  - limit: 5/m
    key: 'login:*'
    description: |
      # no comment
      of two lines
    algorithm:
      account: pool
      weigh: fair-share
    # the end
  - {key: mail, limit: 5/s, burst: 10} # rare
  # below
unmatched: deny # the rest
`

const jsonRules = `{
  "limits": [
    {"key": "a", "limit": "1/s"},
    {"key": "b*", "limit": "3/s"}
  ]
}
`

func TestSetAndRemoveKeepTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		text, key string
		set       []Field // nil: remove
		from, to  string  // what changes in text; to is the whole text if from is empty
	}{
		"value":                   {written, "orders", []Field{{"limit", "200/s"}}, "100/s    # peak", "200/s    # peak"},
		"two values":              {written, "orders", []Field{{"burst", "3"}, {"limit", "2/m"}}, "100/s    # peak\n    burst: 200", "2/m    # peak\n    burst: 3"},
		"new fields":              {written, "orders", []Field{{"enforce", "10%"}, {"max_wait", "2s"}}, "# peak\n", "# peak\n    enforce: 10%\n    max_wait: 2s\n"},
		"removed field":           {written, "orders", []Field{{"burst", ""}, {"lease", ""}}, "    burst: 200\n", ""},
		"first field":             {written, "login:*", []Field{{"limit", "6/m"}}, "5/m", "6/m"},
		"block value":             {written, "login:*", []Field{{"description", "a: b"}}, "|\n      # no comment\n      of two lines\n", "\"a: b\"\n"},
		"map":                     {written, "login:*", []Field{{"algorithm", "exact"}}, "algorithm:\n      account: pool\n      weigh: fair-share\n", "algorithm: exact\n"},
		"removed map":             {written, "login:*", []Field{{"description", ""}}, "    description: |\n      # no comment\n      of two lines\n", ""},
		"flow value":              {written, "mail", []Field{{"limit", "6/s"}}, "5/s", "6/s"},
		"flow last value":         {written, "mail", []Field{{"burst", "11"}}, "burst: 10}", "burst: 11}"},
		"flow new map":            {written, "mail", []Field{{"algorithm", "elastic"}, {"parameters", "{horizon: 1s}"}}, "5/s,", "5/s, algorithm: elastic, parameters: {horizon: 1s},"},
		"flow removed":            {written, "mail", []Field{{"burst", ""}}, ", burst: 10", ""},
		"new rule":                {written, "a", []Field{{"limit", "1/s"}, {"burst", ""}}, "# rare\n", "# rare\n  - {key: \"a\", limit: 1/s}\n"},
		"new narrow glob":         {written, "login:a*", []Field{{"limit", "1/s"}}, "  # one for each", "  - key: \"login:a*\"\n    limit: 1/s\n  # one for each"},
		"remove":                  {written, "orders", nil, "  # orders are agreed with billing\n  - key: \"orders\"   # the shop\n    limit: 100/s    # peak\n    burst: 200\n", ""},
		"remove flow":             {written, "mail", nil, "  - {key: mail, limit: 5/s, burst: 10} # rare\n", ""},
		"remove block":            {written, "login:*", nil, written[strings.Index(written, "  # one for"):strings.Index(written, "  - {key: mail")], ""},
		"empty":                   {"", "a", []Field{{"limit", "1/s"}}, "", "limits:\n  - key: \"a\"\n    limit: 1/s\n"},
		"empty list":              {"limits: [] # none\nunmatched: deny", "a", []Field{{"limit", "1/s"}}, "", "limits: # none\n  - key: \"a\"\n    limit: 1/s\nunmatched: deny"},
		"no list":                 {"unmatched: deny", "a", []Field{{"limit", "1/s"}}, "", "unmatched: deny\nlimits:\n  - key: \"a\"\n    limit: 1/s\n"},
		"last rule":               {"limits: # mine\n- key: a\n  limit: 1/s\nunmatched: deny\n", "a", nil, "", "limits: [] # mine\nunmatched: deny\n"},
		"not indented":            {"limits:\n-   key: a\n    limit: 1/s", "b", []Field{{"limit", "1/s"}}, "", "limits:\n-   key: a\n    limit: 1/s\n-   key: \"b\"\n    limit: 1/s\n"},
		"list in brackets":        {"limits: [{key: a, limit: 1/s}, {key: \"b*\", limit: 1/s}]\n", "b:*", []Field{{"limit", "2/s"}}, "", "limits: [{key: a, limit: 1/s}, {key: \"b:*\", limit: 2/s}, {key: \"b*\", limit: 1/s}]\n"},
		"end of brackets":         {"limits: [{key: a, limit: 1/s}]\n", "b", []Field{{"limit", "2/s"}}, "", "limits: [{key: a, limit: 1/s}, {key: \"b\", limit: 2/s}]\n"},
		"first in brackets":       {"limits: [{key: a, limit: 1/s}, {key: b, limit: 1/s}]\n", "a", nil, "", "limits: [{key: b, limit: 1/s}]\n"},
		"only in brackets":        {"limits: [{key: \"}\", limit: 1/s}]\n", "}", nil, "", "limits: []\n"},
		"first field in braces":   {"limits: [{burst: 5, key: a, limit: 1/s}]\n", "a", []Field{{"burst", ""}}, "", "limits: [{key: a, limit: 1/s}]\n"},
		"field behind the dash":   {"limits:\n  - burst: 5 # why\n    key: a\n    limit: 1/s\n", "a", []Field{{"burst", ""}}, "", "limits:\n  - key: a\n    limit: 1/s\n"},
		"ends of Windows":         {"\ufefflimits:\r\n  - key: \"é\"\r\n    limit: 1/s\r\n", "é", []Field{{"limit", "2/s"}, {"burst", "5"}}, "", "\ufefflimits:\r\n  - key: \"é\"\r\n    limit: 2/s\r\n    burst: 5\r\n"},
		"value in the next line":  {"limits:\n  - key: a\n    limit:\n      1/s\n", "a", []Field{{"limit", "2/s"}}, "", "limits:\n  - key: a\n    limit: 2/s\n"},
		"aliases":                 {"limits:\n  - {key: a, limit: &l 1/s}\n  - {key: b, limit: *l}\n", "b", []Field{{"limit", "2/s"}}, "", "limits:\n  - {key: a, limit: &l 1/s}\n  - {key: b, limit: 2/s}\n"},
		"JSON, a value":           {jsonRules, "a", []Field{{"limit", "2/s"}, {"burst", "7"}}, `"1/s"}`, `"2/s", "burst": 7}`},
		"JSON, a new rule":        {jsonRules, "c", []Field{{"limit", "2/s"}, {"algorithm", "{account: pool, weigh: fair-share}"}}, "", "{\n  \"limits\": [\n    {\"key\": \"a\", \"limit\": \"1/s\"},\n    {\"key\": \"b*\", \"limit\": \"3/s\"},\n    {\"key\": \"c\", \"limit\": \"2/s\", \"algorithm\": {\"account\": \"pool\", \"weigh\": \"fair-share\"}}\n  ]\n}\n"},
		"JSON, a new narrow glob": {jsonRules, "b:*", []Field{{"limit", "2/s"}, {"enforce", "10%"}}, `    {"key": "b*"`, "    {\"key\": \"b:*\", \"limit\": \"2/s\", \"enforce\": \"10%\"},\n    {\"key\": \"b*\""},
		"JSON, removed":           {jsonRules, "b*", nil, ",\n    {\"key\": \"b*\", \"limit\": \"3/s\"}", ""},
		"JSON, an empty list":     {`{"limits": []}`, "\"1<", []Field{{"limit", "1/s"}}, "", `{"limits": [{"key": "\"1<", "limit": "1/s"}]}`},
		"JSON, no list":           {`{"unmatched": "deny"}`, "1", []Field{{"limit", "1/s"}}, "", `{"unmatched": "deny", "limits": [{"key": "1", "limit": "1/s"}]}`},
		"JSON, nothing":           {`{}`, "a", []Field{{"limit", "1/s"}}, "", `{"limits": [{"key": "a", "limit": "1/s"}]}`},
		"a key that needs quotes": {"limits: []\n", "a\"\\b: #*", []Field{{"limit", "1/s"}}, "", "limits:\n  - key: \"a\\\"\\\\b: #*\"\n    limit: 1/s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := c.to
			if c.from != "" {
				if strings.Count(c.text, c.from) != 1 {
					t.Fatalf("%q is not once in the text", c.from)
				}
				want = strings.Replace(c.text, c.from, c.to, 1)
			}
			var got string
			var err error
			if c.set == nil {
				got, err = Remove(c.text, c.key)
			} else {
				got, err = Set(c.text, c.key, c.set...)
			}
			if err != nil || got != want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
			}
			staysJSON(t, c.text, got)
		})
	}
}

func TestSetSaysWhatItCannotDo(t *testing.T) {
	shared := "limits:\n  - {key: a, limit: &l 1/s}\n  - {key: b, limit: *l}\n"
	for name, c := range map[string]struct {
		text, key string
		fields    []Field
		want      string
	}{
		"shared value":   {shared, "a", []Field{{"limit", "2/s"}}, "limits:3:21: rule \"b\": limit: is an alias of nothing"},
		"broken text":    {"limits: 5", "a", []Field{{"limit", "2/s"}}, "limits:1:9:"},
		"bad value":      {written, "orders", []Field{{"limit", "200rps"}}, "limits:7:12: rule \"orders\": limit"},
		"no field":       {written, "orders", []Field{{"limits", "2/s"}}, "did you mean limit?"},
		"no limit":       {written, "new", []Field{{"burst", "5"}}, "has no limit"},
		"key":            {written, "orders", []Field{{"key", "b"}}, "another key is another rule"},
		"lines":          {written, "orders", []Field{{"limit", "1/s\n    burst: 5"}}, "several lines"},
		"more than this": {written, "mail", []Field{{"parameters", "{a: b}}\nunmatched: allow"}}, "several lines"},
		"out of braces":  {written, "mail", []Field{{"parameters", "{a: 1}, {key: x, limit: 1/s"}}, "limits:"},
		"no such field":  {written, "orders", []Field{{"burts", ""}}, `no field "burts" to remove: did you mean burst?`},
		"nor in a new":   {written, "new", []Field{{"limit", "1/s"}, {"burts", ""}}, "did you mean burst?"},
		"twice":          {written, "orders", []Field{{"burst", "5"}, {"burst", ""}}, "burst: the field is to be changed twice"},
		"required":       {written, "orders", []Field{{"limit", ""}}, "has no limit"},
	} {
		if got, err := Set(c.text, c.key, c.fields...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %s; want %s", name, err, got, c.want)
		}
	}
	if _, err := Remove(written, "nobody"); !errors.Is(err, ErrNoRule) {
		t.Errorf("remove of nothing: %v", err)
	}
	if got, err := Remove(shared, "a"); err == nil {
		t.Errorf("removed what another rule needs:\n%s", got)
	}
}

// FuzzSet changes, adds and removes a rule of any text. Nothing else may change.
func FuzzSet(f *testing.F) {
	for _, text := range []string{written, jsonRules, "limits: [{key: a, limit: 1/s}]", "limits:\n- {limit: 1/s,\n  key: a # }\n  }\n"} {
		f.Add(text, "a", "limit", "2/s")
		f.Add(text, "login:*", "burst", "")
		f.Add(text, "b*", "parameters", "{a: '}'}")
	}
	files, err := filepath.Glob("../testdata/broken/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "a", "limit", "2/s")
	}
	f.Fuzz(func(t *testing.T, text, key, name, value string) {
		old, err := dynamicconfig.Parse("limits", []byte(text))
		if err != nil {
			return
		}
		set, err := Set(text, key, Field{"limit", "7/s"}, Field{name, value})
		if err == nil {
			onlyChanges(t, old, set, key)
			staysJSON(t, text, set)
		}
		if removed, err := Remove(text, key); err == nil {
			onlyChanges(t, old, removed, key)
			staysJSON(t, text, removed)
		}
	})
}

func staysJSON(t *testing.T, before, after string) {
	t.Helper()
	if json.Valid([]byte(before)) && !json.Valid([]byte(after)) {
		t.Errorf("%s is JSON, and became\n%s", before, after)
	}
}

func onlyChanges(t *testing.T, old *dynamicconfig.Snapshot, text, key string) {
	t.Helper()
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, c := range dynamicconfig.Diff(old, s) {
		if c.Section != "limits" || c.Name != key {
			t.Errorf("%q: %v\n%s", key, c, text)
		}
	}
}

// A change of one rule takes memory for the limits that come of it, and little beside: it copied all rules seven times.
func TestAChangeOfOneRuleCopiesNoOthers(t *testing.T) {
	var b strings.Builder
	b.WriteString("limits:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  - key: \"k:%05d\"\n    limit: 10/s\n", i)
	}
	text := b.String()
	measure := func(f func() error) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := f()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	parsing := measure(func() error {
		_, err := dynamicconfig.Parse("limits", []byte(text+"# another\n"))
		return err
	})
	for name, change := range map[string]func() (string, error){
		"set":    func() (string, error) { return Set(text, "k:10000", Field{"limit", "11/s"}) },
		"add":    func() (string, error) { return Set(text, "new", Field{"limit", "11/s"}) },
		"remove": func() (string, error) { return Remove(text, "k:10000") },
	} {
		old, err := dynamicconfig.Parse("limits", []byte(text)) // so that the change need not
		if err != nil {
			t.Fatal(err)
		}
		if took := measure(func() error { _, err := change(); return err }); took > parsing+3*parsing/10 {
			t.Errorf("%s takes %d bytes, and parsing %d", name, took, parsing)
		}
		runtime.KeepAlive(old)
	}
}

// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
)

const someLimits = `defaults: {update_interval: 1s}
limits:
  - {key: "frontend:orders", limit: 1000/s, algorithm: fair-share, overcommit: 10%}
  - {key: "frontend:*", limit: 5/m, algorithm: even}
  - {key: "db:*", limit: 100 in-flight}
properties: {size: 5}
`

// One run shows all mistakes in the order of the text, what only a check of the whole finds too.
func TestLimitsCheckShowsAllMistakes(t *testing.T) {
	bad := runtest.File(t, "bad.yaml", `limits:
  - {key: a, limit: 10/s, algorithm: elastik}
  - {key: b, limit: 100rps}
  - {key: c, limit: 10/s, algorithm: elastic, parameters: {overcomit: 10%}}
  - {key: “d”, limit: 10/s, brust: 4}
`)
	_, problems, err := executeWith(t, "", "limits", "lint", bad)
	if err == nil {
		t.Error("the file passes")
	}
	from := 0
	for _, want := range []string{":2:38: there is no algorithm \"elastik\"", ":3:21: rule \"b\": limit: \"100rps\"", ":4:59: rule \"c\": parameters:", "use overcommit", ":5:29: rule \"“d”\": there is no field \"brust\"", ":5:11: rule \"“d”\": key: has the character “"} {
		at := strings.Index(problems[from:], want)
		if at < 0 {
			t.Fatalf("no %q after %d bytes of:\n%s", want, from, problems)
		}
		from += at
	}
}

func TestLimitsCheck(t *testing.T) {
	good := runtest.File(t, "good.yaml", someLimits)
	out, problems, err := execute(t, "limits", "check", good)
	if err != nil || problems != "" || !strings.HasPrefix(out, good+": good, rules: 3, version: ") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v\n%s\n%s", err, out, problems)
	}
	bad := runtest.File(t, "bad.yaml", "limits:\n  - key: a\n    limit: 10\n  - key: b\n    limits: 5/s\n")
	out, problems, err = execute(t, "limits", "check", bad, good, "nowhere.yaml")
	if err == nil || err.Error() != "limits check: 2 of 3 files cannot be used" || !strings.HasPrefix(out, good+": good") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"bad.yaml:3:12: rule \"a\": limit: \"10\" has no unit", "    limit: 10\n      |            ^\n", "bad.yaml:5:5:", "did you mean limit?", "nowhere.yaml: no such file or directory: create it, or correct the path"} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
}

// Envoy's ratelimit service has a config that is not imported: its operators are told where to read how to write it.
func TestLimitsCheckKnowsTheConfigOfEnvoy(t *testing.T) {
	envoy := runtest.File(t, "envoy.yaml", "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, requests_per_unit: 60}\n")
	if _, problems, err := execute(t, "limits", "check", envoy); err == nil || !strings.Contains(problems, "Envoy's ratelimit service") || !strings.Contains(problems, "docs/config.md") {
		t.Errorf("%v\n%s", err, problems)
	}
}

func TestLimitsCheckKnowsAuto(t *testing.T) {
	const good = `limits:
  - {key: a, limit: 5/m, algorithm: auto, max_wait: 1s, max_debt: 5s}
  - {key: b, limit: 1/s, migrate: {from: auto, to: exact, mode: old}}
  - {key: c, limit: 1/s, migrate: {from: elastic, to: auto, mode: new-shadow-old}}
`
	if out, problems, err := executeWith(t, good, "limits", "check", "-"); err != nil {
		t.Errorf("%v, %s%s", err, out, problems)
	}
	const bad = `limits:
  - {key: a, limit: 5/s, algorithm: auto, parameters: {horizon: 1s}}
`
	const slots = `limits:
  - {key: b, limit: 5 in-flight, algorithm: auto}
`
	for text, want := range map[string]string{bad: "algorithm \"auto\"", slots: "auto shares rates and not slots"} {
		if _, problems, err := executeWith(t, text, "limits", "check", "-"); err == nil || !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
}

func TestLimitsCheckNamesTheRuleOfEachWrongParameter(t *testing.T) {
	const text = `limits: [{key: a, limit: 1/s, algorithm: elastic, parameters: {overcommit: 2, horizon: 3}}]`
	_, problems, err := executeWith(t, text, "limits", "check", "-")
	if err == nil || strings.Count(problems, `rule "a": parameters: `) != 2 {
		t.Errorf("%v, %s", err, problems)
	}
}

func TestLimitsCheckKnowsAlgorithms(t *testing.T) {
	const text = `limits:
  - {key: a, limit: 1/s, algorithm: by-tier, parameters: {x: 1}}
  - {key: b, limit: 1/s, algorithm: proportional-share, parameters: {x: 1}}
  - {key: c, limit: 1/s, algorithm: even, parameters: {x: 1}}
  - {key: d, limit: 1/s, algorithm: static, priorities: {1: fairshare}}
  - {key: e, limit: 1/s, algorithm: none}
`
	out, problems, err := executeWith(t, text, "limits", "check", "-")
	if err == nil || out != "" {
		t.Errorf("%v, %s", err, out)
	}
	for _, want := range []string{`stdin:2:37: there is no algorithm "by-tier"`, "stdin:3:69: rule \"b\": parameters: algorithm \"proportional-share\"", "stdin:4:55: rule \"c\": parameters: even takes none", `stdin:5:61: there is no algorithm "fairshare"`} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
	if strings.Count(problems, "stdin:") != 4 {
		t.Errorf("other problems than four in\n%s", problems)
	}
	if _, problems, _ = executeWith(t, text, "limits", "check", "--also", "by-tier,fairshare", "-"); strings.Count(problems, "stdin:") != 2 {
		t.Errorf("with --also:\n%s", problems)
	}
}

func TestLimitsShowIsTheSameConfiguration(t *testing.T) {
	out, _, err := executeWith(t, someLimits, "limits", "show", "-")
	if err != nil {
		t.Fatal(err)
	}
	want, err := dynamicconfig.Parse("want", []byte(someLimits))
	if err != nil {
		t.Fatal(err)
	}
	got, err := dynamicconfig.Parse("got", []byte(out))
	if err != nil || got.Version() != want.Version() || !strings.Contains(out, "lease: 10s") {
		t.Errorf("%v in\n%s", err, out)
	}
}

func TestLimitsShowAnswersForKeys(t *testing.T) {
	out, _, err := executeWith(t, someLimits, "limits", "show", "-", "frontend:orders", "frontend:x", "db:1", "else")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\"frontend:orders\" has the rule:\n  key: \"frontend:orders\"\n  limit: 1000/s\n  burst: 1000\n  algorithm: fair-share\n",
		"\"frontend:x\" has the rule:\n  key: \"frontend:*\"\n  limit: 5/m\n  burst: 1\n  algorithm: even\n",
		"\"db:1\" has the rule:\n  key: \"db:*\"\n  limit: 100 in-flight\n  algorithm: proportional-share\n  fallback: even\n  lease: 10s\n  refresh: 1s\n  learning: 10s\n  recalculate: 5s\n  overcommit: 0%\n",
		"\"else\" has no rule: everything is allowed (unmatched: allow)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no\n%s\nin\n%s", want, out)
		}
	}
	for unmatched, want := range map[string]string{"deny": "nothing is allowed", "{limit: 3/s}": "\"else\" has the rule of unmatched keys:\n  key: \"*\"\n  limit: 3/s\n"} {
		if out, _, err = executeWith(t, "unmatched: "+unmatched, "limits", "show", "-", "else"); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestLimitsShowJSON(t *testing.T) {
	const text = someLimits + "unmatched: {limit: 3/s}\n"
	out, _, err := executeWith(t, text, "limits", "show", "-o", "json", "-", "db:1", "else")
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		Key, Unmatched string
		Rule           map[string]any
	}
	if err := json.Unmarshal([]byte(out), &answers); err != nil || len(answers) != 2 {
		t.Fatalf("%v in\n%s", err, out)
	}
	if a := answers[0]; a.Key != "db:1" || a.Unmatched != "" || a.Rule["key"] != "db:*" || a.Rule["limit"] != "100 in-flight" || a.Rule["parent"] != false || a.Rule["max_keys"] != 100_000.0 {
		t.Errorf("answer = %+v", a)
	}
	if a := answers[1]; a.Key != "else" || a.Unmatched != "rule" || a.Rule["limit"] != "3/s" {
		t.Errorf("answer = %+v", a)
	}

	out, _, err = executeWith(t, text, "limits", "show", "-o", "json", "-")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Version              string
		Defaults, Properties map[string]any
		Limits               []map[string]any
		Unmatched            map[string]any
	}
	if err := json.Unmarshal([]byte(out), &file); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(file.Version) != 12 || file.Defaults["update_interval"] != "1s" || len(file.Limits) != 3 || file.Unmatched["limit"] != "3/s" || !reflect.DeepEqual(file.Properties, map[string]any{"size": 5.0}) {
		t.Errorf("file = %+v", file)
	}
}

const resources = `resources:
  - {identifier_glob: "db/*", capacity: 120}
  - {identifier_glob: "*", capacity: 500, algorithm: {kind: PROPORTIONAL_SHARE, lease_length: 60, refresh_interval: 16}}
`

func TestLimitsImportFromDoorman(t *testing.T) {
	in := runtest.File(t, "resources.yaml", resources)
	out, problems, err := execute(t, "limits", "import", "--from", "doorman", in)
	if err != nil || problems != "" {
		t.Fatalf("%v\n%s", err, problems)
	}
	s, err := dynamicconfig.Parse("out", []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := s.Match("db/1"); !ok || r.Limit != 120 || r.Algorithm != "proportional-share" {
		t.Errorf("rule = %+v", r)
	}
	// import writes limits that pass the check, and overwrites no file.
	to := filepath.Join(t.TempDir(), "limits.yaml")
	if said, _, err := execute(t, "limits", "import", "--from", "doorman", in, "-o", to); err != nil || said != to+": written, rules: 2\n" {
		t.Errorf("%v, %s", err, said)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != out {
		t.Errorf("%v, %s", err, data)
	}
	if _, problems, err := execute(t, "limits", "check", to); err != nil {
		t.Errorf("%v\n%s", err, problems)
	}
	if _, _, err := execute(t, "limits", "import", "--from", "doorman", in, "-o", to); err == nil || !strings.Contains(err.Error(), "exists: choose another name") {
		t.Errorf("err = %v", err)
	}
	folder := t.TempDir()
	if _, _, err := execute(t, "limits", "import", "--from", "doorman", folder); err == nil || strings.Count(err.Error(), "read "+folder) != 1 {
		t.Errorf("the import of a folder: %v", err)
	}
}

func TestLimitsImportSaysWhatIsWrong(t *testing.T) {
	out, problems, err := executeWith(t, strings.Replace(resources, "capacity: 120", "capacity: .nan", 1), "limits", "import", "--from", "doorman", "-")
	if err == nil || err.Error() != "limits import: stdin cannot be imported" || out != "" || !strings.Contains(problems, "stdin:2:41: resource \"db/*\": capacity: is .nan") || !strings.Contains(problems, "^") {
		t.Errorf("%v\n%s", err, problems)
	}
}

func TestQuotaservicesConfigIsImported(t *testing.T) {
	out, problems, err := executeWith(t, "namespaces: {a: {dynamic_bucket_template: {fill_rate: 3}}}", "limits", "import", "--from", "quotaservice", "-")
	if err != nil || problems != "" {
		t.Fatal(err, problems)
	}
	s, err := dynamicconfig.Parse("limits.yaml", []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := s.Match("a:x"); !ok || r.Limit != 3 {
		t.Errorf("%+v", r)
	}
	if out, problems, err := executeWith(t, out, "limits", "check", "-"); err != nil {
		t.Errorf("%s %s %v", out, problems, err)
	}
	if _, problems, err := executeWith(t, "namespaces: {a: {buckets: {b: {sise: 3}}}}", "limits", "import", "--from", "quotaservice", "-"); err == nil || !strings.Contains(problems, "did you mean size?") {
		t.Errorf("%s %v", problems, err)
	}
}

func TestLimitsCheckSaysWhatIsSurelyNotMeant(t *testing.T) {
	const text = `limits:
  - {key: "mail:*", limit: 1/s}
  - {key: "mail:user-?", limit: 1/s}
  - {key: "“orders”", limit: 1/s}
`
	out, notes, err := executeWith(t, text, "limits", "check", "-")
	if err != nil || !strings.Contains(out, "good") {
		t.Errorf("%v\n%s", err, out)
	}
	_, said, err := executeWith(t, "limits:\n  - {key: \"a:*\", limit: 1/s}\n  - {key: \"a:*\", limit: 2/s}\n", "limits", "check", "-")
	if err == nil || !strings.Contains(said, "the rule in line 2 has the same key: remove one of the two") || strings.Contains(said, "never used") {
		t.Errorf("of two rules with one key, it says %v\n%s", err, said)
	}
	const want = `stdin:3:11: rule "mail:user-?" is never used: "mail:*" stands before it and matches all of its keys: move "mail:user-?" above "mail:*", or remove it
    3 |   - {key: "mail:user-?", limit: 1/s}
      |           ^
stdin:4:11: rule "“orders”": key: has the character “ (U+201C), which looks like " and is not: write "
    4 |   - {key: "“orders”", limit: 1/s}
      |           ^
`
	if notes != want {
		t.Errorf("%s\nwant %s", notes, want)
	}
	if _, _, err = executeWith(t, text, "limits", "check", "--strict", "-"); err == nil {
		t.Error("--strict takes it for good")
	}
}

func TestAFolderIsReadAsOne(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"10-shop.yaml": "limits: [{key: orders, limit: 1/s}]",
		"20-mail.yml":  "limits: [{key: \"mail:*\", limit: 2/s}]",
		"notes.txt":    "none",
	} {
		write(name, text)
	}
	runtest.Expect(t, "check", must(t, "check", dir), "good, rules: 2")
	runtest.Expect(t, "show", must(t, "show", dir, "mail:a"), "limit: 2/s")
	write("30-again.yaml", "limits: [{key: orders, limit: 1/s}]")
	runtest.Expect(t, "on stderr", refused(t, "cannot be used", "check", dir), `30-again.yaml:1:16: rule "orders": key: 10-shop.yaml:1:16 has the same key`)
}

func TestLimitsMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"limit check limits.yaml":                        `there is no command "headgate limit"; did you mean limits?`,
		"limits chek":                                    `there is no command "headgate limits chek"; did you mean check?`,
		"limits aply limits.yaml --dry-run":              `there is no command "headgate limits aply"; did you mean apply?`,
		"limits check":                                   "headgate limits check takes FILE..., and there is none; `headgate limits check --help`",
		"limits show":                                    "name a file, or a database with --limits-db",
		"limits show nowhere.yaml":                       "there is no file nowhere.yaml: name a file before the keys, or a database with --limits-db",
		"limits import x":                                "from which rate limiter? Say --from with one of: doorman",
		"limits import --from envoy x":                   "--from envoy: use one of: doorman",
		"limits import --from doorman":                   "takes --from NAME FILE, and there is none",
		"limits edit a.yaml":                             `headgate limits edit takes no arguments, and there is "a.yaml"`,
		"limits diff a.yaml":                             "name a second file, or what to compare with",
		"limits import --from doorman nowhere.yaml":      "nowhere.yaml: no such file",
		"limits import --form doorman x":                 "did you mean --from?",
		"limits import --from doorman - -o /nowhere/out": "cannot be imported",
	} {
		_, _, err := executeWith(t, "", strings.Fields(args)...)
		if err == nil || !strings.Contains(command.OneLine(err), want) {
			t.Errorf("%s: err = %v, want %s", args, err, want)
		}
	}
}

func TestLimitsHelpHasExamples(t *testing.T) {
	for _, args := range []string{"limits", "limits check --help", "limits show --help", "limits import --help", "limits list --help", "limits set --help", "limits edit --help", "limits diff --help"} {
		out, _, err := execute(t, strings.Fields(args)...)
		if err != nil || !strings.Contains(out, "Examples:") {
			t.Errorf("%s: %v, no example in:\n%s", args, err, out)
		}
	}
}

// Programs get the same mistakes, each with its place.
func TestLimitsCheckPrintsForPrograms(t *testing.T) {
	good, bad := runtest.File(t, "good.yaml", someLimits), runtest.File(t, "bad.yaml", "limits:\n  - {key: a, limit: 100rps}\n  - {key: “b”, limit: 1/s}\n")
	out, problems, err := execute(t, "limits", "check", "-o", "json", bad, good)
	var got []limitsfile.Checked
	if err == nil || problems != "" || json.Unmarshal([]byte(out), &got) != nil || len(got) != 2 {
		t.Fatalf("%v\n%s%s", err, out, problems)
	}
	want := limitsfile.Mistake{File: bad, Line: 2, Column: 21, Message: `rule "a": limit: "100rps" is not written as a limit: did you mean 100/s?`}
	if got[0].Good || len(got[0].Mistakes) != 1 || got[0].Mistakes[0] != want || len(got[0].Warnings) != 1 || got[0].Warnings[0].Line != 3 {
		t.Errorf("%+v", got[0])
	}
	if !got[1].Good || got[1].Rules != 3 || got[1].Version == "" || len(got[1].Mistakes)+len(got[1].Warnings) > 0 {
		t.Errorf("%+v", got[1])
	}
	if out, _, err := execute(t, "limits", "check", "--strict", "-o", "json", runtest.File(t, "odd.yaml", "limits: [{key: “b”, limit: 1/s}]\n")); err == nil || !strings.Contains(out, `"good": false`) {
		t.Errorf("%v\n%s", err, out)
	}
}

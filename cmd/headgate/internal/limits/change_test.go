// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/command"
)

const shop = `# by ada
limits:
  # agreed with billing
  - key: orders
    limit: 100/s   # peak
  - {key: "login:*", limit: 5/m, burst: 10}
  - {key: "*", limit: 1000/s}
`

func TestOneRuleIsSetAndRemoved(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	limits := func(args ...string) string { return must(t, append(args, on...)...) }
	limits("apply", runtest.File(t, "limits.yaml", shop), "-m", "first limits")

	runtest.Expect(t, "set", limits("set", "orders", "200/s", "--max-wait", "2s", "-m", "for the sale"), "rule \"orders\": limit 100/s → 200/s, burst 100 → 200, max_wait ", "version 2 is stored\n")
	want := strings.Replace(shop, "100/s   # peak\n", "200/s   # peak\n    max_wait: 2s\n", 1)
	if got := limits("export"); got != want {
		t.Errorf("after set, the text is\n%s", got)
	}
	runtest.Expect(t, "a new glob", limits("set", "login:admin-*", "1/m", "-m", "fewer"), `rule "login:admin-*" added`, "version 3")
	runtest.Expect(t, "its place", limits("export"), "  - {key: \"login:admin-*\", limit: 1/m}\n  - {key: \"login:*\"")
	runtest.Expect(t, "set on trial", limits("set", "orders", "--clear", "max-wait", "--dry-run"), "max_wait 2s →", "version 3 stays the newest")
	runtest.Expect(t, "the same", limits("set", "orders", "200/s", "-m", "x"), "nothing to change: version 3")
	runtest.Expect(t, "a flag without a value", limits("set", "login:*", "--shared", "-m", "x"), "shared false → true")
	runtest.Expect(t, "rm", limits("rm", "orders", "-m", "the glob is enough"), `rule "orders" removed`, "version 5")
	if got := limits("export"); strings.Contains(got, "billing") || !strings.HasPrefix(got, "# by ada\nlimits:\n") {
		t.Errorf("after rm, the text is\n%s", got)
	}

	said := refused(t, "version 5 cannot be changed so, and nothing was changed", append(on, "set", "login:*", "5rps", "-m", "x")...)
	runtest.Expect(t, "a mistake", said, `rule "login:*": limit`, "^")
	said = refused(t, "nothing was changed", append(on, "set", "a", "5/s", "--algorithm", "exakt", "-m", "x")...)
	runtest.Expect(t, "an algorithm", said, "did you mean exact?", "^")
	refused(t, `no rule has the key "logim:*"; did you mean "login:*"?`, append(on, "rm", "logim:*", "-m", "x")...)
	refused(t, `no rule has the key "frontend:orders"; the rule "*" is for it`, append(on, "rm", "frontend:orders", "-m", "x")...)
	refused(t, "name one key and its limit", append(on, "set", "-m", "x")...)
	refused(t, "say what to change", append(on, "set", "orders", "-m", "x")...)
	refused(t, "say why, with --message", append(on, "set", "orders", "5/s")...)
	refused(t, "say why, with --message", append(on, "set", "orders", "5/s", "-m", " ")...)
	refused(t, `no field "burts" to remove: did you mean burst?`, append(on, "set", "orders", "--clear", "burts", "-m", "x")...)
	both := "{from: even, to: auto, mode: old}"
	limits("set", "login:*", "--algorithm", "even", "-m", "x")
	said = refused(t, "nothing was changed", append(on, "set", "login:*", "--migrate", both, "-m", "x")...)
	runtest.Expect(t, "a migration beside an algorithm", said, "remove one of the two", "add --clear algorithm")
	limits("set", "login:*", "--migrate", both, "--clear", "algorithm", "-m", "x")
	said = refused(t, "nothing was changed", append(on, "set", "login:*", "--algorithm", "auto", "-m", "x")...)
	runtest.Expect(t, "an algorithm beside a migration", said, "remove one of the two", "add --clear migrate")
	said = refused(t, "nothing was changed", append(on, "set", "login:*", "--algorithm", "auto", "--burst", "many", "-m", "x")...)
	if strings.Contains(said, "add --clear") {
		t.Errorf("--clear does not help here:\n%s", said)
	}
	limits("rollback", "5", "-m", "x", "--yes")
	refused(t, "the newest version is 8, and this change is based on 3", append(on, "set", "orders", "5/s", "-m", "x", "--base", "3")...)
}

// A mistake that is in a file already, or would be, has the file's name and its line.
func TestAMistakeHasTheNameOfTheFile(t *testing.T) {
	broken := runtest.File(t, "broken.yaml", "limits:\n  - {key: a, limit: 3/s}\n  - {key: b, limit: 3x}\n")
	whole := runtest.File(t, "whole.yaml", "limits:\n  - {key: a, limit: 3/s}\n")
	for file, args := range map[string][]string{broken + ":3:21: rule \"b\"": {"set", broken, "a", "5/s"}, "\n" + broken + ":3:21: rule \"b\"": {"rm", broken, "a"}, whole + ":2:21: rule \"a\"": {"set", whole, "a", "5rps"}} {
		said := "\n" + refused(t, "nothing was changed", args...)
		runtest.Expect(t, strings.Join(args, " "), said, file)
	}
}

// Each command that changes limits says for programs what it did, and nothing else on stdout.
func TestChangesAreSaidForPrograms(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db, "-o", "json"}
	file := runtest.File(t, "limits.yaml", shop)
	burst := `"fields": [
        {
          "name": "burst",
          "from": 100,
          "to": 7
        }
      ]`
	for _, row := range []struct {
		args []string
		want []string
	}{
		{[]string{"apply", file, "-m", "first limits"}, []string{`"stored": true`, `"version": 1`, `"kind": "added"`, `"name": "orders"`}},
		{[]string{"apply", file, "-m", "again"}, []string{`"stored": false`, `"version": 1`, `"changes": []`}},
		{[]string{"set", "orders", "--burst", "7", "--dry-run"}, []string{`"stored": false`, `"version": 1`, burst}},
		{[]string{"set", "orders", "--burst", "7", "-m", "less"}, []string{`"stored": true`, `"version": 2`, burst}},
		{[]string{"rollback"}, []string{`"stored": true`, `"version": 3`, `"from": 7`}},
		{[]string{"rollback", "1"}, []string{`"stored": false`, `"version": 3`, `"changes": []`}},
		{[]string{"override", "orders", "2x", "--for", "1h", "-m", "sale"}, []string{`"version": 4`, `"section": "overrides"`}},
		{[]string{"rm", "orders", "-m", "unused"}, []string{`"version": 5`, `"kind": "removed"`}},
	} {
		out, said, err := answering(t, "", append(slices.Concat(row.args, on), "--yes")...)
		if err != nil || !json.Valid([]byte(out)) {
			t.Errorf("%v: %v, %s%s", row.args, err, out, said)
		}
		runtest.Expect(t, strings.Join(row.args, " "), out, row.want...)
	}
	out, _, err := answering(t, "", "set", file, "orders", "90/s", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	runtest.Expect(t, "a file", out, "stored: true\n", "file: "+file+"\n", "to: 90/s\n")
	if said := refused(t, "nothing was changed", "set", file, "new", "1/s", "--algorithm", "exakt"); !strings.HasPrefix(said, file+":") {
		t.Errorf("a mistake in a file is said to be in %s", said)
	}
	refused(t, "--output xml: use one of: text, json, yaml", "set", file, "orders", "80/s", "-o", "xml")
	if unchanged := must(t, "get", file, "orders"); !strings.Contains(unchanged, "90/s") {
		t.Errorf("a form that does not exist changed the file: %s", unchanged)
	}
}

func TestDangerousChangesAreConfirmed(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	must(t, append(on, "apply", runtest.File(t, "limits.yaml", shop), "-m", "first limits")...)
	for _, c := range []struct {
		danger string
		args   []string
	}{
		{`the limit of "orders" becomes less than half: 100/s → 49/s`, []string{"set", "orders", "49/s", "-m", "x"}},
		{`the rule "login:*" is removed, which is for many keys`, []string{"rm", "login:*", "-m", "x"}},
		{"all events of keys without a rule are refused", []string{"apply", runtest.File(t, "deny.yaml", shop+"unmatched: deny\n"), "-m", "x"}},
	} {
		for _, answer := range []string{"", "n\n", "\n"} {
			_, said, err := answering(t, answer, append(on, c.args...)...)
			runtest.Expect(t, "on stderr", said, "dangerous: "+c.danger+"\n", "Do it? [y/N] ")
			if err == nil || !strings.Contains(err.Error(), "the change was not confirmed: answer y, or add --yes") || command.Code(err) != 4 {
				t.Errorf("%v after %q: %v, exit code %d", c.args, answer, err, command.Code(err))
			}
		}
		runtest.Expect(t, "on trial", must(t, append(append(on, c.args...), "--dry-run")...), "nothing was changed")
	}
	if _, _, err := answering(t, "y\n", append(on, "set", "orders", "49/s", "-m", "x")...); err != nil {
		t.Error(err)
	}
	must(t, append(on, "rm", "login:*", "-m", "x", "--yes")...)
	_, said, err := answering(t, "", append(on, "rollback", "1")...)
	runtest.Expect(t, "on stderr", said, "dangerous: 2 changes are taken back at once\n")
	if command.Code(err) != 4 {
		t.Errorf("rollback over two versions: %v", err)
	}
	must(t, append(on, "rollback", "1", "--yes")...)
	// A change that is made in steps or watched takes itself back: one more rollback would put it in force again.
	must(t, append(on, "set", "orders", "90/s", "-m", "x")...)
	must(t, append(on, "rollback")...)
	_, said, err = answering(t, "n\n", append(on, "rollback")...)
	runtest.Expect(t, "on stderr", said, "dangerous: version 6 took version 5 back, and this puts it in force again: to go farther back, write a version\n")
	if command.Code(err) != 4 {
		t.Errorf("rollback of a rollback: %v", err)
	}
	// Before a first version, nobody goes by the database.
	must(t, "apply", "--limits-db", t.TempDir(), runtest.File(t, "first.yaml", shop+"unmatched: deny\n"), "-m", "x")
	_, _, err = answering(t, "", append(on, "set", "orders", "5/s", "-m", "x", "--base", "1")...)
	if command.Code(err) != 3 {
		t.Errorf("a conflict: %v, exit code %d", err, command.Code(err))
	}
}

func TestOneRuleOfAFileIsChanged(t *testing.T) {
	file := runtest.File(t, "limits.yaml", shop)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := errors.Join(os.Symlink(file, link), os.Chmod(file, 0o640)); err != nil {
		t.Fatal(err)
	}
	runtest.Expect(t, "set", must(t, "set", link, "orders", "200/s"), "limit 100/s → 200/s", link+": written")
	text, err := os.ReadFile(file)
	if want := strings.Replace(shop, "100/s ", "200/s ", 1); err != nil || string(text) != want {
		t.Errorf("%v, the file has\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	runtest.Expect(t, "rm on trial", must(t, "rm", file, "orders", "--dry-run"), `rule "orders" removed`, file+": nothing was changed")
	refused(t, "was not confirmed", "rm", file, "login:*")
	refused(t, "name a file, or a database", "set")
	refused(t, "no such file", "set", filepath.Join(t.TempDir(), "none"), "a", "1/s")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".headgate*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLimitsAreEdited(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	must(t, append(on, "apply", runtest.File(t, "limits.yaml", shop), "-m", "first limits")...)
	t.Setenv("TMPDIR", t.TempDir())
	drafts := func() []string {
		found, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "limits-*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// The first time, this editor makes a mistake; it mends that the second time.
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", `sh -c 'sed -i -e "s:200/sec:200/s:" -e "s:100/s :200/sec :" "$2"' editor -x`)
	edit := append(on, "edit", "-m", "for the sale")
	out, said, err := answering(t, "yes\n", edit...)
	if err != nil || !strings.HasSuffix(out, "limit 100/s → 200/s, burst 100 → 200\nversion 2 is stored\n") {
		t.Errorf("%v\n%s", err, out)
	}
	runtest.Expect(t, "on stderr", said, "limits:5:12: rule \"orders\": limit", "    5 |     limit: 200/sec   # peak\n      |            ^\n", "Edit again? [Y/n] ")
	if left := drafts(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	t.Setenv("EDITOR", "true")
	if out, _, err = answering(t, "", edit...); err != nil || out != "nothing to change: the text is as it was\n" {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv("EDITOR", "sed -i s:200/s:5:")
	_, _, err = answering(t, "n\n", edit...)
	left := drafts()
	if len(left) != 1 || err == nil || !strings.Contains(err.Error(), "the text cannot be changed so, and nothing was changed; your text is in "+left[0]+", for headgate limits apply --base 2") {
		t.Errorf("%v, left %v", err, left)
	}
	t.Setenv("EDITOR", "false")
	_, _, err = answering(t, "", edit...)
	if err == nil || !strings.Contains(err.Error(), "name another with EDITOR") {
		t.Error(err)
	}
}

// The second of two editors is told what to do with its text.
func TestTwoEditorsAtOnce(t *testing.T) {
	db := t.TempDir()
	must(t, "apply", "--limits-db", db, runtest.File(t, "limits.yaml", shop), "-m", "first limits")
	t.Setenv("TMPDIR", t.TempDir())
	begun := filepath.Join(t.TempDir(), "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", `sh -c 'read go < "$1"; sed -i -e s:100/s:150/s: "$2"' editor `+begun)
	edited := make(chan error)
	go func() {
		_, _, err := execute(t, "limits", "edit", "--limits-db", db, "-m", "mine")
		edited <- err
	}()
	editor, err := os.OpenFile(begun, os.O_WRONLY, 0) // when the editor reads it
	if err != nil {
		t.Fatal(err)
	}
	must(t, "set", "--limits-db", db, "orders", "160/s", "-m", "theirs")
	if err := editor.Close(); err != nil {
		t.Fatal(err)
	}
	err = <-edited
	left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "limits-*.yaml"))
	if len(left) != 1 || err == nil || !strings.HasSuffix(err.Error(), "your text is in "+left[0]+": write what changed since into it, for headgate limits apply --base 2") {
		t.Fatalf("%v, left %v", err, left)
	}
	runtest.Expect(t, "apply", must(t, "apply", "--limits-db", db, left[0], "--base", "2", "-m", "mine"), "160/s → 150/s", "version 3 is stored")
}

func TestRulesAreListedAndGot(t *testing.T) {
	file := runtest.File(t, "limits.yaml", shop+"  - {key: a, limit: 10 in-flight, migrate: {from: static, to: fair-share, mode: old}, fallback: closed}\n")
	if out := must(t, "list", file); out != `KEY      LIMIT         BURST  ALGORITHM                  ENFORCE  FALLBACK
orders   100/s         100    auto                       100%     even
login:*  5/m           10     auto                       100%     even
*        1000/s        1000   auto                       100%     even
a        10 in-flight  -      static → fair-share (old)  100%     closed
` {
		t.Errorf("list prints\n%s", out)
	}
	if out := must(t, "list", file, "--match", "login:x"); strings.Contains(out, "orders") {
		t.Errorf("list --match prints\n%s", out)
	}
	var rules []map[string]any
	if err := json.Unmarshal([]byte(must(t, "list", file, "--match", "l*", "-o", "json")), &rules); err != nil || len(rules) != 1 || rules[0]["burst"] != 10.0 {
		t.Errorf("list in JSON: %v, %v", rules, err)
	}
	runtest.Expect(t, "list in YAML", must(t, "list", file, "-o", "yaml"), "key: login:*\n", "burst: 10\n")
	runtest.Expect(t, "get", must(t, "get", file, "login:*", "a"), "rule \"login:*\":\n  key: \"login:*\"\n", "limit: 10 in-flight\n")
	if err := json.Unmarshal([]byte(must(t, "get", file, "orders", "-o", "json")), &rules); err != nil || len(rules) != 1 || rules[0]["limit"] != "100/s" {
		t.Errorf("get in JSON: %v, %v", rules, err)
	}
	// Rules that lease nothing are printed without the fields that only leases use, unless the rule has them.
	written := runtest.File(t, "limits.yaml", "limits:\n  - {key: a, limit: 5/s}\n  - {key: b, limit: 5/s, priority: 3, refresh: 2s}\n  - {key: c, limit: 5/s, algorithm: fair-share}\n")
	for key, want := range map[string][]bool{"a": {false, false, false}, "b": {true, true, false}, "c": {true, true, true}} {
		for _, command := range []string{"get", "show"} {
			out := must(t, command, written, key)
			for i, field := range []string{"  priority: ", "  refresh: ", "  recalculate: "} {
				if strings.Contains(out, field) != want[i] {
					t.Errorf("%s %s has%s: %t\n%s", command, key, field, !want[i], out)
				}
			}
		}
	}
	refused(t, `no rule has the key "order"; did you mean "orders"?`, "get", file, "order")
	refused(t, `--output xml: use one of: text, json, yaml`, "get", file, "orders", "-o", "xml")
	refused(t, `--match "["`, "list", file, "--match", "[")
	refused(t, "name a key", "get", file)
}

func TestFilesAndVersionsAreCompared(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	first, second := runtest.File(t, "a.yaml", shop), runtest.File(t, "b.yaml", strings.Replace(shop, "100/s", "200/s", 1))
	must(t, append(on, "apply", first, "-m", "x")...)
	must(t, append(on, "apply", second, "-m", "x")...)
	must(t, append(on, "rm", "orders", "-m", "x")...)
	const up, down = "rule \"orders\": limit 100/s → 200/s, burst 100 → 200\n", "rule \"orders\": limit 200/s → 100/s, burst 200 → 100\n"
	for _, c := range []struct {
		want string
		args []string
	}{
		{up, []string{"diff", first, second}},
		{down, []string{"diff", "2", "1"}},
		{"rule \"orders\" removed\n", []string{"diff"}},
		{"rule \"orders\" removed\n", []string{"diff", "2"}},
		{"rule \"orders\" added\n", []string{"diff", second}},
		{"version 3 and version 3 mean the same\n", []string{"diff", "3", "newest"}},
	} {
		if out := must(t, append(on, c.args...)...); out != c.want {
			t.Errorf("%v prints %s", c.args, out)
		}
	}
	type field struct {
		Name     string
		From, To any
	}
	var changes []struct{ Fields []field }
	if err := json.Unmarshal([]byte(must(t, append(on, "diff", "1", "2", "-o", "json")...)), &changes); err != nil || len(changes) != 1 || !slices.Equal(changes[0].Fields[:1], []field{{"limit", "100/s", "200/s"}}) {
		t.Errorf("diff in JSON: %v, %v", changes, err)
	}
	_, _, err := answering(t, "", "diff", first, second, "--exit-code")
	if command.Code(err) != 2 {
		t.Errorf("--exit-code: %v, %d", err, command.Code(err))
	}
	must(t, "diff", first, first, "--exit-code")
	refused(t, "say which database", "diff", "1", "2")
	refused(t, "there is no such version", append(on, "diff", "7")...)
	refused(t, "a file cannot be used", "diff", first, "nowhere.yaml")
}

func TestShellsCompleteKeysAndVersions(t *testing.T) {
	db := t.TempDir()
	must(t, "apply", "--limits-db", db, runtest.File(t, "limits.yaml", shop), "-m", "first limits", "--author", "ada")
	for want, args := range map[string][]string{
		"login:*\t5/m\n:4":          {"set", "--limits-db", db, "lo"},
		"1\tada: first limits\n:36": {"rollback", "--limits-db", db, ""},
		"text\njson\nyaml\n:4":      {"get", "-o", ""},
		":0":                        {"get", ""},
	} {
		out, _, err := execute(t, append([]string{"__complete", "limits"}, args...)...)
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("%v: %v, %q, want %q", args, err, out, want)
		}
	}
}

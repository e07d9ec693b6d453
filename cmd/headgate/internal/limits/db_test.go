// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/dynamicconfig/history"
)

// limitsOf is a file of limits for two keys.
func limitsOf(t *testing.T, orders, mail string) string {
	t.Helper()
	return runtest.File(t, "limits.yaml", "# by ada\nlimits:\n  - {key: orders, limit: "+orders+"}\n  - {key: mail, limit: "+mail+"}\n")
}

// A mistyped path is no new database.
func TestANewDatabaseIsMadeInADirectoryThatThereIs(t *testing.T) {
	file := limitsOf(t, "100/s", "5/s")
	missing := filepath.Join(t.TempDir(), "var", "headgat")
	for _, verb := range [][]string{{"apply", file}, {"apply", file, "--dry-run"}, {"edit"}, {"set", "orders", "limit=200/s"}} {
		args := append(verb, "--limits-db", missing, "-m", "x")
		refused(t, "there is no directory "+missing+", and nothing was stored: for a new database, make the directory first, as in `mkdir -p -m 700 "+missing+"`", args...)
		if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v makes a folder: %v", verb, err)
		}
	}
	for _, verb := range [][]string{{"apply", file, "-m", "x"}, {"history"}} {
		refused(t, file+" is a file: name the directory of the database, as in "+filepath.Dir(file), append(verb, "--limits-db", file)...)
	}
	if err := os.MkdirAll(missing, 0o700); err != nil {
		t.Fatal(err)
	}
	runtest.Expect(t, "apply", must(t, "apply", "--limits-db", missing, file, "-m", "first limits"), "version 1 is stored\n")
}

func TestLimitsAreChangedAndRolledBack(t *testing.T) {
	db := t.TempDir()
	first, second := limitsOf(t, "100/s", "5/s"), limitsOf(t, "200/s", "5/s")

	refused(t, "there are no limits yet: apply a first version, with `headgate limits apply --limits-db "+db+" FILE`", "rollback", "--limits-db", db)
	refused(t, "say why, with --message", "apply", "--limits-db", db, first)
	out := must(t, "apply", "--limits-db", db, first, "--dry-run")
	runtest.Expect(t, "a dry run", out, `rule "orders" added`, "nothing was changed: version 0")
	if _, err := os.Stat(filepath.Join(db, "limits.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dry run makes the database: %v", err)
	}
	runtest.Expect(t, "apply", must(t, "apply", "--limits-db", db, first, "-m", "first limits", "--author", "ada"), `rule "orders" added`, "version 1 is stored\n")
	runtest.Expect(t, "apply of the same", must(t, "apply", "--limits-db", db, first, "-m", "again"), "nothing to change: version 1 has this text\n")
	out = must(t, "apply", "--limits-db", db, second, "-m", "for the sale\nsee the calendar", "--author", "bob", "--base", "1")
	if out != "rule \"orders\": limit 100/s → 200/s, burst 100 → 200\nversion 2 is stored\n" {
		t.Errorf("apply prints\n%s", out)
	}
	refused(t, "the newest version is 2, and this change is based on 1", "apply", "--limits-db", db, first, "-m", "late", "--base", "1")

	if out = must(t, "history", "--limits-db", db); !regexp.MustCompile(`^VERSION +TIME +AUTHOR +LIMITS +MESSAGE
2 +20\d\d-\S+Z +bob +[0-9a-f]{12} +for the sale …
1 +20\d\d-\S+Z +ada +[0-9a-f]{12} +first limits
$`).MatchString(out) {
		t.Errorf("history prints\n%s", out)
	}
	var lines []map[string]any
	if err := json.Unmarshal([]byte(must(t, "history", "--limits-db", db, "-o", "json", "-n", "1", "--before", "2")), &lines); err != nil || len(lines) != 1 || lines[0]["message"] != "first limits" || lines[0]["version"] != 1.0 {
		t.Errorf("history in JSON: %v, %v", lines, err)
	}
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if out = must(t, "export", "--limits-db", db, "--version", "1"); out != string(text) {
		t.Errorf("export prints\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "exported.yaml")
	must(t, "export", "--limits-db", db, "-o", file)
	runtest.Expect(t, "show", must(t, "show", "--limits-db", db, "orders"), "limit: 200/s")
	runtest.Expect(t, "show of the first", must(t, "show", "--limits-db", db, "--version", "1", "orders"), "limit: 100/s")

	runtest.Expect(t, "a rollback on trial", must(t, "rollback", "--limits-db", db, "--dry-run"), "limit 200/s → 100/s", "version 2 stays the newest")
	runtest.Expect(t, "rollback", must(t, "rollback", "--limits-db", db), "limit 200/s → 100/s", "version 3 is stored")
	if out = must(t, "export", "--limits-db", db); out != string(text) {
		t.Errorf("after the rollback, the limits are\n%s", out)
	}
	runtest.Expect(t, "rollback to what is there", must(t, "rollback", "--limits-db", db, "1"), "nothing to change: version 3 has the text of version 1")
	runtest.Expect(t, "rollback of the rollback", must(t, "rollback", "--limits-db", db, "2"), "version 4 is stored")
	runtest.Expect(t, "history", must(t, "history", "--limits-db", db), "roll back to version 1", "roll back to version 2")
	refused(t, `"two" is no version`, "rollback", "--limits-db", db, "two")
	refused(t, history.ErrNoVersion.Error()+": headgate limits history lists the versions that are there", "rollback", "--limits-db", db, "77")

	runtest.Expect(t, "on stderr", refused(t, "nothing was changed", "prune", "--limits-db", db, "--keep", "3"), "dangerous: version 1 and all before it are removed for good")
	if out = must(t, "prune", "--limits-db", db, "--keep", "3", "--yes"); out != "versions removed: 1\n" {
		t.Errorf("prune prints %s", out)
	}
	if out = must(t, "prune", "--limits-db", db, "--keep", "3"); out != "versions removed: 0\n" {
		t.Errorf("prune prints %s", out)
	}
	refused(t, "limits prune: keep 1 version or more, and not 0", "prune", "--limits-db", db)
	refused(t, history.ErrNoVersion.Error(), "export", "--limits-db", db, "--version", "1")
	refused(t, "say which database", "history")
	refused(t, first+" is a file, which has no versions: look for who changed it where you keep it", "history", first)
	refused(t, "name a file, or a database", "show")
	refused(t, "--version is of a database", "show", first, "--version", "1")
}

func TestApplyShowsMistakesAndChangesNothing(t *testing.T) {
	db := t.TempDir()
	must(t, "apply", "--limits-db", db, limitsOf(t, "100/s", "5/s"), "-m", "first limits")
	bad := runtest.File(t, "bad.yaml", "limits:\n  - {key: a, limit: 10}\n  - {key: b, limits: 5/s}\n")
	said := refused(t, bad+" cannot be used, and nothing was changed", "apply", "--limits-db", db, bad, "-m", "x")
	runtest.Expect(t, "on stderr", said, "bad.yaml:2:21: rule \"a\": limit: \"10\" has no unit", "  - {key: a, limit: 10}\n      |                     ^\n", "bad.yaml:3:14:", "did you mean limit?")
	mine := runtest.File(t, "mine.yaml", "limits: [{key: a, limit: 1/s, algorithm: by-tier}]\n")
	runtest.Expect(t, "on stderr", refused(t, "nothing was changed", "apply", "--limits-db", db, mine, "-m", "x"), `there is no algorithm "by-tier"`)
	if out := must(t, "history", "--limits-db", db); strings.Count(out, "\n") != 2 {
		t.Errorf("a broken file is stored:\n%s", out)
	}
	must(t, "apply", "--limits-db", db, mine, "-m", "x", "--also", "by-tier")
}

func TestHistoryOfAKeyHasWhatChangedIt(t *testing.T) {
	db := t.TempDir()
	in := func(args ...string) { must(t, append(args, "--limits-db", db, "--author", "ada")...) }
	in("apply", limitsOf(t, "100/s", "5/s"), "-m", "first limits")
	in("set", "mail", "6/s", "-m", "more mail")
	in("set", "orders", "200/s", "-m", "the sale\nsee the calendar")
	in("override", "mail", "2x", "--for", "1h", "-m", "late")
	in("rm", "orders", "-m", "no orders")

	for _, c := range []struct{ key, want string }{
		{"orders", `^VERSION +TIME +AUTHOR +CHANGE +MESSAGE
5 +20\d\d-\S+Z +ada +rule "orders" removed +no orders
3 +20\d\d-\S+Z +ada +rule "orders": limit 100/s → 200/s, burst 100 → 200 +the sale …
1 +20\d\d-\S+Z +ada +rule "orders" added +first limits
$`},
		{"mail", `^VERSION .*
4 +\S+ +ada +override of "mail" added: limit 2x, .* +late
2 +\S+ +ada +rule "mail": limit 5/s → 6/s, burst 5 → 6 +more mail
1 .*
$`},
	} {
		if out := must(t, "history", "--limits-db", db, c.key); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("the history of %s is\n%s", c.key, out)
		}
	}
	var lines []struct {
		Version int64
		Changes []string
	}
	if err := json.Unmarshal([]byte(must(t, "history", "--limits-db", db, "orders", "-n", "1", "--before", "5", "-o", "json")), &lines); err != nil || len(lines) != 1 || lines[0].Version != 3 || len(lines[0].Changes) != 1 {
		t.Errorf("in JSON: %+v, %v", lines, err)
	}
	must(t, "prune", "--keep", "2", "--yes", "--limits-db", db)
	if out := must(t, "history", "--limits-db", db, "mail"); strings.Contains(out, "ada") {
		t.Errorf("what changed before the versions that are there is not known, and it prints\n%s", out)
	}
	refused(t, `no rule has the key "oders"`, "history", "--limits-db", db, "oders")
}

// With --admin, each answer is waited for as long as --timeout says.
func TestADeciderThatHangsIsWaitedForAsLongAsSaid(t *testing.T) {
	done := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer hangs.Close()
	defer close(done)
	file := limitsOf(t, "100/s", "5/s")
	for _, verb := range [][]string{
		{"apply", file, "-m", "x"},
		{"set", "orders", "200/s", "-m", "x"},
		{"rm", "orders", "-m", "x"},
		{"edit", "-m", "x"},
		{"rollback"},
		{"override", "orders", "2x", "--for", "1h", "-m", "x"},
		{"bypass", "orders", "--for", "1h", "-m", "x"},
		{"overrides"},
		{"history"},
		{"list"},
		{"get", "orders"},
		{"show", "orders"},
		{"diff"},
		{"export"},
		{"dry-run", file},
		{"suggest"},
		{"reset", "orders"},
	} {
		began := time.Now()
		refused(t, "did not answer in time", append(verb, "--admin", hangs.Listener.Addr().String(), "--timeout", "10ms")...)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%v: %v", verb, took)
		}
	}
}

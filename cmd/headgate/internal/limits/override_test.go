// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/command"
)

func TestOverridesAreWrittenListedAndEnded(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	limits := func(args ...string) string { return must(t, append(args, on...)...) }
	limits("apply", runtest.File(t, "limits.yaml", shop), "-m", "first limits")

	runtest.Expect(t, "override", limits("override", "login:*", "2x", "--for", "2h", "-m", "slow phones", "--author", "ada"),
		`override of "login:*" added: limit 2x, until `, "author ada, reason slow phones", "version 2 is stored")
	runtest.Expect(t, "of one key", limits("override", "login:bob", "1/s", "--for", "1d", "-m", "bob"), `override of "login:bob" added: limit 1/s`)
	runtest.Expect(t, "another amount", limits("override", "login:*", "3x", "--for", "2h", "-m", "slower phones"), `override of "login:*": limit 2x → 3x`)
	runtest.Expect(t, "bypass", limits("bypass", "orders", "--until", time.Now().Add(time.Hour).Format(time.RFC3339), "-m", "billing is down"), "limit bypass")
	if text := limits("export"); !strings.HasPrefix(text, shop+"overrides:\n") {
		t.Errorf("the rules are changed:\n%s", text)
	}
	runtest.Expect(t, "overrides", limits("overrides"), "login:*", "3x", "holds for ", "slower phones", "login:bob", "orders", "bypass")
	var lines []struct{ Key, Author string }
	if err := json.Unmarshal([]byte(limits("overrides", "-o", "json")), &lines); err != nil || len(lines) != 3 || lines[0].Key != "login:bob" || lines[0].Author == "" {
		t.Errorf("%v: %+v", err, lines)
	}
	runtest.Expect(t, "show", limits("show", "login:eve"), "limit: 15/m", `override: "3x until `, "slower phones")
	runtest.Expect(t, "bypassed", limits("bypass", "login:*", "--for", "1h", "-m", "all phones"), `override of "login:*" added: limit bypass`)
	runtest.Expect(t, "bypassed again", limits("bypass", "login:*", "--for", "1h", "-m", "all of them"), `override of "login:*": `, "all phones → all of them")
	runtest.Expect(t, "below the bypass", limits("overrides"), "holds, but for the bypass, for ")
	runtest.Expect(t, "show", limits("show", "login:eve"), `override: "bypass until `, "all of them")
	runtest.Expect(t, "the end of the bypass", limits("bypass", "login:*", "--end", "-m", "phones are slow again"), `override of "login:*" removed`)
	refused(t, "no such override", append(on, "bypass", "login:*", "--end", "-m", "again")...)
	runtest.Expect(t, "back", limits("show", "login:eve"), `override: "3x until `)
	runtest.Expect(t, "the end", limits("override", "login:*", "--end", "-m", "phones are fast"), `override of "login:*" removed`)
	refused(t, "no such override", append(on, "override", "login:*", "--end", "-m", "again")...)

	refused(t, `there is no such file, "login:*": name the file of limits first, or a database with --limits-db`, "override", "login:*", "2x", "--for", "2h", "-m", "x")
	refused(t, "is a folder: name the file in it that is to change", "override", t.TempDir(), "login:*", "2x", "--for", "2h", "-m", "x")
	refused(t, "is a file, which has no versions", "rollback", runtest.File(t, "limits.yaml", shop))

	for name, tt := range map[string][]string{
		"no reason":            {"say why", "override", "orders", "2x", "--for", "2h"},
		"no end":               {"say when it ends", "override", "orders", "2x", "-m", "x"},
		"too long":             {"within 30 days", "override", "orders", "2x", "--for", "31d", "-m", "x"},
		"in the past":          {"ends in the future", "override", "orders", "2x", "--until", "2020-01-01T00:00:00Z", "-m", "x"},
		"no amount":            {"a factor, as in 2x", "override", "orders", "two", "--for", "2h", "-m", "x"},
		"no such pattern":      {"this would change nothing: no rule has this pattern", "override", "order*", "2x", "--for", "2h", "-m", "x"},
		"a limit for all":      {"cannot be changed so", "override", "--all", "5/s", "--for", "2h", "-m", "x"},
		"all, and not sure":    {"was not confirmed", "bypass", "--all", "--for", "2h", "-m", "x"},
		"little of all":        {"was not confirmed", "override", "--all", "0.2x", "--for", "2h", "-m", "x"},
		"little of a pattern":  {"was not confirmed", "override", "login:*", "0/s", "--for", "2h", "-m", "x"},
		"an amount for bypass": {"name one KEY", "bypass", "orders", "2x", "--for", "2h", "-m", "x"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tt[0], append(on, tt[1:]...)...) })
	}
	runtest.Expect(t, "what stays limited", refused(t, "was not confirmed", append(on, "bypass", "--all", "--for", "2h", "-m", "x")...),
		`dangerous: all events are let through, but for those of "login:bob", with an override of their own: bypass these by name, too`)
	limits("bypass", "login:bob", "--for", "1h", "-m", "x")
	runtest.Expect(t, "nothing stays limited", refused(t, "was not confirmed", append(on, "bypass", "--all", "--for", "2h", "-m", "x")...), "dangerous: all events are let through\n")
	runtest.Expect(t, "all, and sure", limits("bypass", "--all", "--for", "10m", "-m", "nothing works", "--yes"), "override of all rules added")
	runtest.Expect(t, "all, ended", limits("bypass", "--all", "--end", "-m", "it works"), "override of all rules removed")
}

func TestARefusedChangeIsNotSaidToBeMade(t *testing.T) {
	on := []string{"--limits-db", t.TempDir()}
	file := runtest.File(t, "limits.yaml", shop)
	must(t, append(on, "apply", file, "-m", "first limits")...)
	for name, args := range map[string][]string{
		"a bypass of all":            append(on, "bypass", "--all", "--for", "2h", "-m", "x"),
		"an override":                append(on, "override", "login:*", "0/s", "--for", "2h", "-m", "x"),
		"a bypass of all, in a file": {"bypass", file, "--all", "--for", "2h", "-m", "x"},
		"a limit":                    append(on, "set", "login:*", "1/h", "-m", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			out, said, err := execute(t, append([]string{"limits"}, args...)...)
			if err == nil {
				t.Fatal("it was not refused")
			}
			if out != "" && !strings.HasPrefix(out, "if you confirm it:\n") {
				t.Errorf("%s%s%v", out, said, err)
			}
		})
	}
}

// A file from version control does not have the override of last night. To apply it ends the
// override, which is not what its author has in mind, so apply asks first.
func TestApplyAsksBeforeItEndsAnOverrideThatHolds(t *testing.T) {
	on := []string{"--limits-db", t.TempDir()}
	file := runtest.File(t, "limits.yaml", shop)
	must(t, append(on, "apply", file, "-m", "first limits")...)
	must(t, append(on, "bypass", "login:*", "--for", "1h", "-m", "phones are slow")...)

	runtest.Expect(t, "list", must(t, append(on, "list")...), "1 override holds now, which this table leaves out: headgate limits overrides lists it")
	out, said, err := execute(t, append([]string{"limits", "apply", file, "-m", "from version control"}, on...)...)
	if command.Code(err) != 4 {
		t.Errorf("%v, %s", err, out)
	}
	runtest.Expect(t, "the danger", said, `dangerous: the override of "login:*" ends, which the file does not have: bypass until `, "phones are slow; headgate limits export prints it")

	whole := runtest.File(t, "whole.yaml", must(t, append(on, "export")...)+"# with the override\n")
	must(t, append(on, "apply", whole, "-m", "with the override")...)
	runtest.Expect(t, "to mean it", must(t, append(on, "apply", file, "-m", "meant", "--yes")...), `override of "login:*" removed`, "version 4 is stored")
	if out := must(t, append(on, "list")...); strings.Contains(out, "override") {
		t.Errorf("no override holds:\n%s", out)
	}
}

func TestCheckNamesOverridesThatDoNothing(t *testing.T) {
	file := runtest.File(t, "limits.yaml", shop+`overrides:
  - {key: orders, limit: 2x, until: 2020-01-01T00:00:00Z, author: ada, reason: old}
  - {key: "gone:*", limit: 2x, until: 2099-01-01T00:00:00Z, author: ada, reason: no rule}
  - {key: "login:*", limit: 2x, until: 2099-01-01T00:00:00Z, author: ada, reason: holds}
`)
	out, said, err := execute(t, "limits", "check", file)
	if err != nil {
		t.Fatal(err)
	}
	runtest.Expect(t, "check", out, "good, rules: 3")
	runtest.Expect(t, "notes", said, `override of "orders" has ended at 2020-01-01T00:00:00Z: remove it`, `override of "gone:*" changes nothing: no rule has this pattern`)
	if strings.Contains(said, "login") {
		t.Errorf("it names one that holds: %s", said)
	}
	// The next change of a file removes what has ended.
	must(t, "override", file, "orders", "2x", "--for", "2h", "-m", "again")
	if out := must(t, "overrides", file); strings.Contains(out, "has ended") || !strings.Contains(out, "again") {
		t.Errorf("overrides:\n%s", out)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

func TestOverridesAreWrittenListedAndEnded(t *testing.T) {
	db := t.TempDir()
	on := []string{"--limits-db", db}
	limits := func(args ...string) string { return must(t, append(args, on...)...) }
	limits("apply", written(t, "limits.yaml", shop), "-m", "first limits")

	expectText(t, "override", limits("override", "login:*", "2x", "--for", "2h", "-m", "slow phones", "--author", "ada"),
		`override of "login:*" added: limit 2x, until `, "author ada, reason slow phones", "version 2 is stored")
	expectText(t, "of one key", limits("override", "login:bob", "1/s", "--for", "1d", "-m", "bob"), `override of "login:bob" added: limit 1/s`)
	expectText(t, "another amount", limits("override", "login:*", "3x", "--for", "2h", "-m", "slower phones"), `override of "login:*": limit 2x → 3x`)
	expectText(t, "bypass", limits("bypass", "orders", "--until", time.Now().Add(time.Hour).Format(time.RFC3339), "-m", "billing is down"), "limit bypass")
	if text := limits("export"); !strings.HasPrefix(text, shop+"overrides:\n") {
		t.Errorf("the rules are changed:\n%s", text)
	}
	expectText(t, "overrides", limits("overrides"), "login:*", "3x", "holds for ", "slower phones", "login:bob", "orders", "bypass")
	var lines []overrideLine
	if err := json.Unmarshal([]byte(limits("overrides", "-o", "json")), &lines); err != nil || len(lines) != 3 || lines[0].Key != "login:bob" || lines[0].Author == "" {
		t.Errorf("%v: %+v", err, lines)
	}
	expectText(t, "show", limits("show", "login:eve"), "limit: 0.25/s", `override: "3x until `, "slower phones")
	expectText(t, "the end", limits("override", "login:*", "--end", "-m", "phones are fast"), `override of "login:*" removed`)
	refused(t, "no such override", append(on, "override", "login:*", "--end", "-m", "again")...)

	refused(t, `there is no such file, "login:*": name the file of limits first, or a database with --limits-db`, "override", "login:*", "2x", "--for", "2h", "-m", "x")
	refused(t, "is a file, which has no versions", "rollback", written(t, "limits.yaml", shop))

	for name, tt := range map[string][]string{
		"no reason":            {"say why", "override", "orders", "2x", "--for", "2h"},
		"no end":               {"say when it ends", "override", "orders", "2x", "-m", "x"},
		"too long":             {"within 30 days", "override", "orders", "2x", "--for", "31d", "-m", "x"},
		"in the past":          {"ends in the future", "override", "orders", "2x", "--until", "2020-01-01T00:00:00Z", "-m", "x"},
		"no amount":            {"a factor, as in 2x", "override", "orders", "two", "--for", "2h", "-m", "x"},
		"no such pattern":      {"this would change nothing: no rule has this pattern", "override", "order*", "2x", "--for", "2h", "-m", "x"},
		"a limit for all":      {"cannot be changed so", "override", "--all", "5/s", "--for", "2h", "-m", "x"},
		"all, and not sure":    {"was not confirmed", "bypass", "--all", "--for", "2h", "-m", "x"},
		"an amount for bypass": {"name one KEY", "bypass", "orders", "2x", "--for", "2h", "-m", "x"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tt[0], append(on, tt[1:]...)...) })
	}
	expectText(t, "all, and sure", limits("bypass", "--all", "--for", "10m", "-m", "nothing works", "--yes"), "override of all rules added")
	expectText(t, "all, ended", limits("bypass", "--all", "--end", "-m", "it works"), "override of all rules removed")
}

// A file from version control does not have the override of last night. To apply it ends the
// override, which is not what its author has in mind, so apply asks first.
func TestApplyAsksBeforeItEndsAnOverrideThatHolds(t *testing.T) {
	on := []string{"--limits-db", t.TempDir()}
	file := written(t, "limits.yaml", shop)
	must(t, append(on, "apply", file, "-m", "first limits")...)
	must(t, append(on, "bypass", "login:*", "--for", "1h", "-m", "phones are slow")...)

	expectText(t, "list", must(t, append(on, "list")...), "1 override holds now, which this table leaves out: headgate limits overrides lists it")
	out, said, err := execute(t, append([]string{"limits", "apply", file, "-m", "from version control"}, on...)...)
	if command.Code(err) != 4 {
		t.Errorf("%v, %s", err, out)
	}
	expectText(t, "the danger", said, `dangerous: the override of "login:*" ends, which the file does not have: bypass until `, "phones are slow; headgate limits export prints it")

	whole := written(t, "whole.yaml", must(t, append(on, "export")...)+"# with the override\n")
	must(t, append(on, "apply", whole, "-m", "with the override")...)
	expectText(t, "to mean it", must(t, append(on, "apply", file, "-m", "meant", "--yes")...), `override of "login:*" removed`, "version 4 is stored")
	if out := must(t, append(on, "list")...); strings.Contains(out, "override") {
		t.Errorf("no override holds:\n%s", out)
	}
}

func TestCheckNamesOverridesThatDoNothing(t *testing.T) {
	file := written(t, "limits.yaml", shop+`overrides:
  - {key: orders, limit: 2x, until: 2020-01-01T00:00:00Z, author: ada, reason: old}
  - {key: "gone:*", limit: 2x, until: 2099-01-01T00:00:00Z, author: ada, reason: no rule}
  - {key: "login:*", limit: 2x, until: 2099-01-01T00:00:00Z, author: ada, reason: holds}
`)
	out, said, err := execute(t, "limits", "check", file)
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, "check", out, "good, rules: 3")
	expectText(t, "notes", said, `override of "orders" has ended at 2020-01-01T00:00:00Z: remove it`, `override of "gone:*" changes nothing: no rule has this pattern`)
	if strings.Contains(said, "login") {
		t.Errorf("it names one that holds: %s", said)
	}
	// The next change of a file removes what has ended.
	must(t, "override", file, "orders", "2x", "--for", "2h", "-m", "again")
	if out := must(t, "overrides", file); strings.Contains(out, "has ended") || !strings.Contains(out, "again") {
		t.Errorf("overrides:\n%s", out)
	}
}

// An operator overrides a limit of daemons, which end it by themselves, and resets a bucket.
func TestAnOperatorOverridesAndResets(t *testing.T) {
	t.Parallel()
	db := t.TempDir()
	file, token := operatorsFile(t)
	must(t, "apply", "--limits-db", db, written(t, "limits.yaml", "limits:\n  - {key: \"k*\", limit: 1/h, burst: 5, algorithm: exact}\n"), "-m", "first limits")
	c := newMemberCluster(t, 2, false, "", "--limits-db", db, "--operators", file)
	run := func(i int, args ...string) string {
		t.Helper()
		out, said, err := execute(t, append(args, "--admin", c.admins[i], "--token-file", token)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, said)
		}
		return out
	}
	var doors []quotaservicepb.QuotaServiceClient
	for _, n := range c.nodes {
		conn, err := grpc.NewClient(n.edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		doors = append(doors, quotaservicepb.NewQuotaServiceClient(conn))
	}
	allowed := func(i int) (n int) {
		for range 20 {
			answer, err := doors[i].Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "1", TokensRequested: 1, MaxWaitTimeOverride: true})
			if err == nil && answer.GetStatus() == quotaservicepb.AllowResponse_OK {
				n++
			}
		}
		return n
	}
	eventually(t, "the burst is used", func() bool { return allowed(0) == 0 })
	// Before the members found each other, each had a bucket of its own. What these let through is
	// charged later, possibly after a reset, so a reset is repeated until it has an effect.
	eventually(t, "a reset lets a burst through", func() bool {
		_, _, err := execute(t, "limits", "reset", "k:1", "--admin", c.admins[1], "--token-file", token)
		return err == nil && allowed(0) == 5
	})
	bypass := func(d time.Duration) {
		run(0, "limits", "bypass", "k*", "--until", time.Now().Add(d).Format(time.RFC3339), "-m", "it is wrong")
	}
	bypass(time.Hour)
	for i := range c.nodes {
		eventually(t, "everything is let through", func() bool { return allowed(i) == 20 })
	}
	expectText(t, "explain", run(1, "explain", "k:1"), "everything is let through: bypass until ", " by ada: it is wrong")
	bypass(2 * time.Second) // in place of the hour
	for i := range c.nodes {
		eventually(t, "the bypass has ended", func() bool { return allowed(i) == 0 })
	}
	expectText(t, "events", run(1, "events", "--past"), "made the bucket of k:1 full again")
	// The limits follow the clock, and the event a timer.
	eventually(t, "the end of the bypass is told", func() bool {
		return strings.Contains(run(1, "events", "--past"), `override of "k*" has ended: bypass until `)
	})
}

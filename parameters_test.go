// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

// An algorithm that cannot be built as its rule wants decides nothing well: the
// file is as broken as one with a wrong limit.
func TestParametersThatAnAlgorithmRefusesAreNotTaken(t *testing.T) {
	members, err := static.New(ringpop.Host{Address: "a:1"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{key: "k", limit: 10/s, algorithm: fair-share, parameters: {bad: "1"}}`:                                     "limits.yaml:2:64",
		`{key: "k", limit: 10/s, algorithm: elastic, parameters: {overcommit: "-1"}}`:                                "overcommit",
		`{key: "k", limit: 10/s, algorithm: elastic, parameters: {headroom: "1.25"}}`:                                "use overcommit, horizon or repay",
		`{key: "k", limit: 10/s, algorithm: exact, parameters: {bad: "1"}}`:                                          "it takes none",
		`{key: "k", limit: 10/s, algorithm: even, parameters: {bad: "1"}}`:                                           "even takes none",
		`{key: "k", limit: 10/s, algorithm: elastic, parameters: {overcommit: "0.25"}}`:                              "",
		`{key: "k", limit: 10/s, migrate: {from: elastic, to: {account: pool, weigh: request-weighted}, mode: new}}`: "two names of one algorithm",
	} {
		broken := limits(t, "limits:\n  - "+text)
		_, err := headgate.New(headgate.Config{Address: "a:1"}, memory.New(broken), members)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		n, err := headgate.New(headgate.Config{Address: "a:1"}, memory.New(limits(t, "limits: []")), members)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Limits().Set(broken); (err != nil) != (want != "") {
			t.Errorf("%s, later: %v, want %q", text, err, want)
		}
	}
}

// A band is divided by an algorithm of claims, or by a weighting of the service's own. An algorithm that hosts
// cannot claim by divides none.
func TestPrioritiesNameWhatDividesABand(t *testing.T) {
	members, err := static.New(ringpop.Host{Address: "a:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"static": false, "mine": false, "claims/mine": false, "first-come": true, "elsewhere": true} {
		text := "limits:\n  - {key: k, limit: 10/s, algorithm: fair-share, priorities: {7: " + name + "}}"
		_, err := headgate.New(headgate.Config{Address: "a:1"}, memory.New(limits(t, text)), members,
			headgate.WithAlgorithm("mine", algorithm.FairShare), headgate.WithPayload("first-come", firstCome()), headgate.WithRemote("elsewhere", exact.New(nil)))
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), `rule "k": priorities.7: `+name+" does not share within a band") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

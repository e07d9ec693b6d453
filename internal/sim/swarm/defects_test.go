// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

var defects = []struct {
	name string
	testrun.Defect

	law string
}{
	{
		"a key that is asked for has a full bucket each time",
		testrun.Defect{File: "aggregator/internal/account/pool/taking.go", Text: "\tk.bucket.Lower(now, k.pool)\n\treturn &k.bucket\n", With: "\treturn &k.bucket\n"},
		"bound:",
	},
	{
		"what is admitted costs nothing",
		testrun.Defect{File: "internal/exactbucket/bucket.go", Text: "\tb.add(n)\n\treturn Verdict{OK: true", With: "\treturn Verdict{OK: true"},
		"settles:",
	},
	{
		"a host that heard of others late stays in debt",
		testrun.Defect{File: "limiter/mesh/receive.go", Text: "e.giveBack(at, r.alone", With: "e.giveBack(at, 0*r.alone"},
		"starves:",
	},
	{
		"a limiter counts what it admits for the owner twice",
		testrun.Defect{File: "limiter/inspect.go", Text: "\treturn allowed + usage.Allowed + elsewhere, ", With: "\treturn allowed + usage.Allowed + 2*elsewhere, "},
		"counts:",
	},
}

func TestDefectsBreakLaws(t *testing.T) {
	for _, d := range defects {
		testrun.Search{
			Name: d.name, Defect: d.Defect,
			Args:  []string{"-run", "TestSwarmKeepsTheLaws", ".", "-clusters", "400", "-rapid.seed", "1", "-rapid.shrinktime", "1s"},
			Found: d.law,
		}.Run(t, "../../..")
	}
}

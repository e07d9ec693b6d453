// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"strings"
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
	if !testrun.Long() {
		t.Skip("compiles the tree once for each defect: " + testrun.LongEnv + "=1 runs it")
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			out, err := d.Test(t, "../../..", "-run", "TestSwarmKeepsTheLaws", ".", "-clusters", "400", "-rapid.seed", "1", "-rapid.shrinktime", "1s")
			if err == nil || !strings.Contains(out, d.law) {
				t.Errorf("no cluster breaks the law %s %v\n%s", d.law, err, out)
			}
			if line, _, ok := strings.Cut(out, "headgate-lab"); ok {
				t.Log(line)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

// These are defects 1 to 9 of issue 13, which the code had once, put back where the code is now. A
// model finds each. Its first walks begin at seed.
var putBack = []struct {
	name string
	testrun.Defect

	model, seed string
}{
	{
		"1: a cancelled wait under max_debt keeps tokens",
		testrun.Defect{File: "limiter/take.go", Text: "alone := min(t.Left, 0) + refilled", With: "alone := 0 * refilled"},
		"TestModel", "1",
	},
	{
		"2: Take under a shared rule does not say who decided, and when to come again",
		testrun.Defect{
			File: "limiter/decision.go", Text: "\treturn &Estimate{decision: newDecision(t.of, t.at, t.Verdict), taken: t}\n",
			With: "\td := newDecision(t.of, t.at, t.Verdict)\n\tif r := t.of.Current(t.at).Config(); r != nil && r.Shared {\n\t\td.RetryAfter, d.By = 0, \"\"\n\t}\n\treturn &Estimate{decision: d, taken: t}\n",
		},
		"TestModel", "1",
	},
	{
		"3: a soft event is settled with tokens that were not taken",
		testrun.Defect{File: "limiter/take.go", Text: "case extra > 0 && t.Reason == stage.Granted:", With: "case extra > 0:"},
		"TestModel", "1",
	},
	{
		"4: a shared bucket is forgotten when max_keys is lowered",
		testrun.Defect{
			File: "limiter/internal/keys/registry.go", Text: "rule.keys.Add(1) > rule.most() && !rule.isCommon(k.name) && st.Full(now)",
			With: "rule.keys.Add(1) > rule.most() && (rule.isCommon(k.name) || st.Full(now))",
		},
		"TestModel", "1",
	},
	{
		"5: a change of hosts misses a key that is being admitted",
		testrun.Defect{File: "limiter/internal/keys/registry.go", Text: "\tr.table.Barrier()\n", With: ""},
		"TestModel", "1",
	},
	{
		"6: a refund that is sent again has another ID",
		testrun.Defect{File: "limiter/internal/elsewhere/outbox.go", Text: "op.Rule, op.again = rule, true", With: "op.Rule, op.again, op.ID = rule, true, rand.Uint64()|1"},
		"TestModel", "1",
	},
	{
		"7: a waiter keeps slots that do not count any more",
		testrun.Defect{File: "limiter/internal/keys/key.go", Text: "return k.state.Load() == st || k.Current(now).AnsweringSlots() == st.AnsweringSlots()", With: "return true"},
		"TestModelOfSlots", "1",
	},
	{
		"8: a cap does nothing where somebody else's limiter is in debt",
		testrun.Defect{File: "limiter/internal/foreign/foreign.go", Text: "\tf.charge(t, f.l.TokensAt(t)-tokens)\n", With: "\tif f.l.TokensAt(t) > 0 {\n\t\tf.charge(t, f.l.TokensAt(t)-tokens)\n\t}\n"},
		"TestModelOfForeign", "1",
	},
	{
		"9: a reservation that was made while nothing was limited gives tokens back",
		testrun.Defect{File: "limiter/internal/share/rate.go", Text: "\tcase math.IsInf(v.Left, 1):\n\t\treceipt.Rest = countedOnly{}\n", With: ""},
		"TestModel", "6",
	},
}

func TestModelsFindDefects(t *testing.T) {
	for _, d := range putBack {
		testrun.Search{
			Name: d.name, Defect: d.Defect,
			Args:  []string{"-run", "^" + d.model + "$", ".", "-rapid.checks=1000", "-rapid.seed=" + d.seed, "-rapid.shrinktime=1s", "-rapid.nofailfile"},
			Found: "[rapid] f", // "failed", or "flaky": by another walk than the one that is made again
		}.Run(t, "..")
	}
}

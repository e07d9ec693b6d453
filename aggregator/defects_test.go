// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

const (
	inHere    = "."
	inPool    = "./internal/account/pool"
	inBatches = "../rpc/usage/batches"
	inAsk     = "../rpc/usage/ask"
)

// These are defects 1 to 12 of issue 14, which the code had once, put back where the code is now. The
// named test of the package finds each.
var putBack = []struct {
	name string
	testrun.Defect

	in, test string
}{
	{
		"1: a rule with a parent vanishes, and its key keeps a lease without a rule",
		testrun.Defect{File: "aggregator/parent/lease.go", Text: "\t\tl.of.end(l)\n\t\treturn nil\n", With: "\t\tl.of.end(l)\n\t\treturn l\n"},
		inHere, "TestAParentThatVanishesLive",
	},
	{
		"1: a panic in the call of the cluster above ends the process",
		testrun.Defect{File: "aggregator/parent/run.go", Text: "defer rpc.Recovered(&failed)", With: "defer rpc.StackOf(nil)"},
		inHere, "TestRunOutlivesItsParent",
	},
	{
		"2: hosts that report after an earlier, longer interval are taken for dead",
		testrun.Defect{File: "aggregator/internal/account/pool/account.go", Text: "k.changed().SlowUntil(then + dead(k.interval))", With: "k.changed()"},
		inHere, "TestAnIntervalThatChangesLiveLendsNothingTwice",
	},
	{
		"3: a demand beyond reason counts in full",
		testrun.Defect{File: "aggregator/internal/account/pool/account.go", Text: "return lower(wants, mostWanted*upper(limit.Rate, 1))", With: "return wants"},
		inPool, "TestADemandBeyondReasonHidesNoOther",
	},
	{
		"4: what undoes a batch has room for all of its rows",
		testrun.Defect{File: "rpc/usage/batches/batches.go", Text: "make([]usage.Take, 0, moved)", With: "make([]usage.Take, 0, len(rows)+0*moved)"},
		inBatches, "TestWhatIsRememberedIsCounted",
	},
	{
		"4: a withdrawn batch counts for nothing",
		testrun.Defect{File: "rpc/usage/batches/batches.go", Text: "\tb.at, m.bytes = m.all.PushBack(b), m.bytes+bytesPerBatch\n", With: "\tif b.at = m.all.PushBack(b); !b.withdrawn {\n\t\tm.bytes += bytesPerBatch\n\t}\n"},
		inBatches, "TestAFloodLeavesRoomForTheLatest",
	},
	{
		"5: what a host uses under another algorithm than the rule's does not count",
		testrun.Defect{File: "aggregator/update.go", Text: "return nil, u.elsewhere(i, hash)", With: "return nil, nil"},
		inHere, "TestARolloutToAnotherAlgorithmLendsNothingTwice",
	},
	{
		"6: bad parameters close a key for good",
		testrun.Defect{
			File: "aggregator/internal/owned/key.go", Text: "\t\tc = &account.Config{Settings: &s.Accounts}\n",
			With: "\t\tk.Rule, k.Settings = nil, &rules.Settings{Number: 1 << 62}\n\t\treturn\n",
		},
		inHere, "TestBadParametersAreMended",
	},
	{
		"7: each refused report is logged",
		testrun.Defect{File: "aggregator/journal.go", Text: "if others, ok := j.refusals.Next(now, refusalsEvery); ok {", With: "if others, _ := j.refusals.Next(now, refusalsEvery); others >= 0 {"},
		inHere, "TestRefusalsAreLoggedNowAndThen",
	},
	{
		"7: a host's name may be as long as it likes",
		testrun.Defect{File: "rpc/accept.go", Text: "len(name) == 0 || len(name) > MaxKeyLength", With: "len(name) == 0"},
		inHere, "TestAnOwnerHearsOfProperNamesOnly",
	},
	{
		"8: time goes back for a key",
		testrun.Defect{File: "aggregator/internal/table/table.go", Text: "sh.now = max(sh.now, now)", With: "sh.now = now"},
		inHere, "TestTimeDoesNotGoBackForAKey",
	},
	{
		"9: a weigher's parts of a limit of 0 are no numbers",
		testrun.Defect{File: "aggregator/internal/account/kept.go", Text: "\t\tcapacity = 1 // of nothing, all parts are 0\n", With: "\t\tk.weigh(capacity, demands, parts)\n"},
		inHere, "TestALimitOfZeroIsNoFailure",
	},
	{
		"10: an owner gets no limits",
		testrun.Defect{File: "aggregator/owner.go", Text: "return one.Configure(limits)", With: "return nil"},
		inHere, "TestOwnersShareTheirLives",
	},
	{
		"11: reports about the same time are not counted",
		testrun.Defect{File: "aggregator/internal/account/late.go", Text: "*l, r.Overlaps = 0, true", With: "*l = 0"},
		inHere, "TestReportsAboutTheSameTimeAreCounted",
	},
	{
		"12: what a full bucket did not take in is given back",
		testrun.Defect{File: "aggregator/internal/account/learned/learned.go", Text: "t.Tokens = max(t.Tokens, before-b.Level(now))", With: "_ = before"},
		inHere, "TestOnlyWhatMovedIsUndone",
	},
	{
		"12: what was not charged is given back",
		testrun.Defect{File: "aggregator/internal/account/learned/learned.go", Text: "t.Tokens = b.Charge(now, t.Tokens, account.Deepest(rule, limit))", With: "b.Charge(now, t.Tokens, account.Deepest(rule, limit))"},
		inHere, "TestOnlyWhatWasChargedIsGivenBack",
	},
	{
		"12: the last answer of a quiet key is lost",
		testrun.Defect{File: "rpc/usage/ask/queue.go", Text: "\t\tt.undoLater(q, undoAfter)\n", With: ""},
		inHere, "TestATakeWithoutAnAnswerIsGivenBackWithoutAnotherTake",
	},
	{
		"12: a take waits for longer than its timeout",
		testrun.Defect{File: "rpc/usage/ask/queue.go", Text: "now-q.queue[late].since > q.timeout", With: "now-q.queue[late].since > 1000*q.timeout"},
		inAsk, "TestATakeInADeepQueueReturnsInTime",
	},
}

func TestDefectsOfDecidersAreFound(t *testing.T) {
	for _, d := range putBack {
		found := "--- FAIL: " + d.test
		if d.test == "TestRunOutlivesItsParent" { // the process dies
			found = "panic: a bug in Claim"
		}
		testrun.Search{
			Name: d.name, Defect: d.Defect,
			Args:  []string{"-vet=off", "-ldflags=-w", "-run", "^" + d.test + "$", d.in},
			Found: found,
		}.Run(t, "..")
	}
}

// SPDX-License-Identifier: Apache-2.0

package carried

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/usage"
)

// granting answers reports as an owner of this release or of an earlier one does, which skips
// what it does not know.
var granting = rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var r usage.Report
	if err := (usage.Columnar{}).DecodeReport(payload, &r); err != nil {
		return nil, err
	}
	n := r.Len()
	return usage.Columnar{}.EncodeGrants(&usage.Grants{
		Weight: make([]float64, n), Burst: make([]float64, n), Used: make([]float64, n), Lease: slices.Repeat([]time.Duration{time.Second}, n),
	}, n)
})

// report reports keys to d as host, and fails unless the grants are for all of them.
func report(t *testing.T, d rpc.Decider, host string, keys ...string) error {
	t.Helper()
	n := len(keys)
	r := &usage.Report{Algorithm: "auto", Keys: keys, Allowed: make([]int64, n), Rejected: make([]int64, n), Elapsed: slices.Repeat([]time.Duration{time.Second}, n), Weight: make([]float64, n)}
	payload, err := (usage.Columnar{}).EncodeReport(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.Update(t.Context(), host, payload)
	if err != nil {
		return err
	}
	g, err := (usage.Columnar{}).DecodeGrants(answer, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if g.Lease[i] != time.Second {
			t.Errorf("%s: no grant", keys[i])
		}
	}
	return nil
}

// answering answers "key" with what it is about, and counts.
func answering(asked *int) questions.Answers {
	return questions.Answers{
		"key":   func(_ context.Context, about []byte) (any, error) { *asked++; return string(about), nil },
		"fails": func(context.Context, []byte) (any, error) { return nil, errors.New("no") },
		"long":  func(context.Context, []byte) (any, error) { return strings.Repeat("x", MaxAnswer), nil },
	}
}

func texts(answers []Answer) (all []string) {
	for _, a := range answers {
		all = append(all, a.Host+" "+string(a.JSON))
	}
	return all
}

func TestAQuestionTravelsWithAGrantAndTheAnswerWithAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board Board
		asked := 0
		edge := board.Before(granting)
		one, two := &Program{Edge: edge, Answers: answering(&asked)}, &Program{Edge: edge, Answers: answering(&asked)}
		round := func() {
			time.Sleep(3 * time.Second)
			for host, p := range map[string]*Program{"one": one, "two": two} {
				keys := []string{"a", "b"}
				if host == "two" {
					keys = []string{"b"}
				}
				if err := report(t, p, host, keys...); err != nil {
					t.Fatal(err)
				}
			}
		}
		round()
		for _, kind := range []string{"key", "fails", "long", "unknown"} {
			board.Ask(time.Now(), kind, []byte("a"))
			board.Ask(time.Now(), kind, []byte("b"))
		}
		round()
		if got := board.Answers(time.Now(), "key", []byte("b")); asked != 3 || len(got) != 0 {
			t.Errorf("asked %d times, and answered %v", asked, texts(got))
		}
		round()
		for about, want := range map[string][]string{"a": {`one "a"`}, "b": {`one "b"`, `two "b"`}} {
			if got := texts(board.Answers(time.Now(), "key", []byte(about))); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", about, got, want)
			}
		}
		for _, kind := range []string{"fails", "long", "unknown"} {
			if got := board.Answers(time.Now(), kind, []byte("b")); len(got) != 0 {
				t.Errorf("%s: %v", kind, texts(got))
			}
		}
		// A question is asked for a while, and an answer is kept for a while.
		time.Sleep(asksFor)
		before := asked
		round()
		if asked != before {
			t.Error("an old question is asked")
		}
		time.Sleep(keepsFor)
		if got := board.Answers(time.Now(), "key", []byte("a")); len(got) != 0 {
			t.Errorf("an old answer is kept: %v", texts(got))
		}
	})
}

// The end of a question takes the place of its beginning.
func TestAQuestionTakesThePlaceOfAnother(t *testing.T) {
	var board Board
	now := time.Now()
	board.Ask(now, "trace", []byte("a"), "trace", "untrace")
	board.Ask(now, "untrace", []byte("a"), "trace", "untrace")
	var kinds []string
	note := func(kind string) func(context.Context, []byte) (any, error) {
		return func(context.Context, []byte) (any, error) { kinds = append(kinds, kind); return true, nil }
	}
	p := &Program{Edge: board.Before(granting), Answers: questions.Answers{"trace": note("trace"), "untrace": note("untrace")}}
	if err := report(t, p, "one", "a"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(kinds, []string{"untrace"}) {
		t.Errorf("asked %v", kinds)
	}
}

func TestProgramsAndEdgesOfAnEarlierReleaseSkipQuestions(t *testing.T) {
	var board Board
	board.Ask(time.Now(), "key", []byte("a"))
	edge := board.Before(granting)
	for range 3 {
		if err := report(t, edge, "one", "a"); err != nil { // an earlier program reads grants with questions
			t.Error(err)
		}
	}
	asked := 0
	p := &Program{Edge: edge, Answers: answering(&asked)}
	if err := report(t, p, "two", "a"); err != nil || asked != 1 {
		t.Fatal(asked, err)
	}
	p.Edge = granting // an earlier edge reads a report with answers
	if err := report(t, p, "two", "a"); err != nil {
		t.Error(err)
	}
}

// A question travels even if no owner answers: then each row is unanswered, as it is anyway.
func TestAQuestionTravelsWithoutAnOwner(t *testing.T) {
	var board Board
	down := errors.New("no route")
	edge := board.Before(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, down }))
	asked := 0
	fanout := usage.Fanout{Host: "one", Placement: owners{}, Peers: owners{&Program{Edge: edge, Answers: answering(&asked)}}}
	tell := func() (errs []error) {
		r := &usage.Report{Algorithm: "auto", Keys: []string{"a", "b"}, Allowed: []int64{1, 1}, Rejected: []int64{0, 0}, Elapsed: []time.Duration{1e9, 1e9}, Weight: []float64{0, 0}}
		fanout.Update(t.Context(), r, time.Minute, func(p usage.Part, _ *usage.Grants, err error) {
			errs = append(errs, slices.Repeat([]error{err}, p.Usage.Len())...)
		})
		return errs
	}
	if errs := tell(); len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Errorf("without a question: %v", errs)
	}
	board.Ask(time.Now(), "key", []byte("b"))
	if errs := tell(); len(errs) != 2 || errs[0] == nil || errs[1] == nil || asked != 1 {
		t.Errorf("with a question: %v, asked %d times", errs, asked)
	}
	tell()
	if got := texts(board.Answers(time.Now(), "key", []byte("b"))); !slices.Equal(got, []string{`one "b"`}) {
		t.Errorf("%q", got)
	}
}

// owners are one Decider for all keys.
type owners struct{ rpc.Decider }

func (owners) Owner(string) string                { return "owner" }
func (o owners) Peer(string) (rpc.Decider, error) { return o.Decider, nil }

// An operator watches a key for an hour. Programs that restart have other names, and are asked too.
func TestProgramsThatComeLaterAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board Board
		asked := 0
		for i := range 2 * maxKept {
			board.Ask(time.Now(), "key", []byte("a"))
			name, program := fmt.Sprint("program", i), &Program{Edge: board.Before(granting), Answers: answering(&asked)}
			for range 2 { // the second report has the answer
				if err := report(t, program, name, "a"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(asksFor / 4)
			}
			if got := board.Answers(time.Now(), "key", []byte("a")); !slices.ContainsFunc(got, func(a Answer) bool { return a.Host == name }) {
				t.Fatalf("%s is not asked", name)
			}
		}
	})
}

// What is not asked is not kept, whoever sends it, and neither is more than there is room for.
func TestAProgramDoesNotFillTheEdge(t *testing.T) {
	var board Board
	now := time.Now()
	for i := range 2 * maxOpen {
		board.Ask(now, "key", fmt.Append(nil, "k", i))
	}
	send := func(host string, answers ...*headgatepb.Answered) error {
		value, err := proto.Marshal(&headgatepb.Usage{ElapsedMs: 1, Answers: answers})
		if err != nil {
			t.Fatal(err)
		}
		_, err = board.Before(granting).Update(t.Context(), host, &anypb.Any{TypeUrl: usage.ReportTypeURL, Value: value})
		return err
	}
	answer := func(kind, about string, bytes int) *headgatepb.Answered {
		return &headgatepb.Answered{Question: &headgatepb.Question{Kind: kind, About: []byte(about)}, Json: make([]byte, bytes)}
	}
	if err := send("one", answer("key", "k0", 1), answer("key", "k127", 1), answer("other", "k127", 1)); err != nil {
		t.Fatal(err)
	}
	for about, want := range map[string]int{"k0": 0, "k127": 1} { // the oldest questions are forgotten
		if got := board.Answers(now, "key", []byte(about)); len(got) != want {
			t.Errorf("%s: %d answers, want %d", about, len(got), want)
		}
	}
	for host := range 2 * maxKept {
		if err := send(fmt.Sprint("host", host), answer("key", "k127", MaxAnswer)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(board.Answers(now, "key", []byte("k127"))); n != maxKeptBytes/MaxAnswer {
		t.Errorf("%d answers of %d bytes are kept", n, MaxAnswer)
	}
	for host := range 2 * maxKept {
		if err := send(fmt.Sprint("host", host), answer("key", "k127", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(board.Answers(now, "key", []byte("k127"))); n != maxKept {
		t.Errorf("%d answers are kept", n)
	}
	many := slices.Repeat([]*headgatepb.Answered{answer("key", "k127", 1)}, MaxCarried+1)
	for what, answers := range map[string][]*headgatepb.Answered{
		"too many":             many,
		"too large":            {answer("key", "k127", MaxAnswer+1)},
		"of no kind":           {answer("", "k127", 1)},
		"of a long kind":       {answer(strings.Repeat("k", questions.MaxKind+1), "k127", 1)},
		"about something long": {answer("key", strings.Repeat("k", questions.MaxAbout+1), 1)},
	} {
		if err := send("one", answers...); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnEdgeDoesNotFillAProgram(t *testing.T) {
	asked := 0
	var sent []byte
	grants := func(asks ...*headgatepb.Question) rpc.DeciderFunc {
		return func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
			sent = bytes.Clone(payload.GetValue())
			answer, err := granting(ctx, host, payload)
			if err != nil {
				return nil, err
			}
			more, err := proto.Marshal(&headgatepb.Grants{Questions: asks})
			answer.Value = append(answer.Value, more...)
			return answer, err
		}
	}
	ask := func(kind, about string) *headgatepb.Question {
		return &headgatepb.Question{Kind: kind, About: []byte(about)}
	}
	p := &Program{Answers: answering(&asked)}
	p.Edge = grants(slices.Repeat([]*headgatepb.Question{ask("key", "a")}, MaxCarried)...)
	for range 5 {
		if err := report(t, p, "one", "a"); err != nil {
			t.Fatal(err)
		}
	}
	var got headgatepb.Usage
	if err := proto.Unmarshal(sent, &got); err != nil || len(got.GetAnswers()) != MaxCarried {
		t.Errorf("%d answers, %v", len(got.GetAnswers()), err)
	}
	for what, edge := range map[string]rpc.DeciderFunc{
		"too many":   grants(slices.Repeat([]*headgatepb.Question{ask("key", "a")}, MaxCarried+1)...),
		"of no kind": grants(ask("", "a")),
		"too long":   grants(ask("key", strings.Repeat("a", questions.MaxAbout+1))),
	} {
		if p.Edge = edge; !errors.Is(report(t, p, "one", "a"), rpc.ErrPayload) {
			t.Errorf("%s: no ErrPayload", what)
		}
	}
}

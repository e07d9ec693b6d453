// SPDX-License-Identifier: Apache-2.0

package carried

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/internal/wire"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/usage"
)

// Bounds of what travels, and of what a Board keeps.
const (
	// MaxCarried is the most questions in one answer, and the most answers in one report.
	MaxCarried = 8

	// MaxAnswer is the largest answer, in bytes.
	MaxAnswer = 64 << 10

	// maxOpen is the most questions that a Board asks at a time, and maxKept the most
	// answers that it keeps. With more of either, the oldest are forgotten.
	maxOpen = 64
	maxKept = 256

	// maxKeptBytes bounds the answers that a Board keeps together.
	maxKeptBytes = 4 << 20

	// asksFor is for how long a question is asked, after it was asked last.
	asksFor = 30 * time.Second

	// keepsFor is for how long an answer is kept.
	keepsFor = time.Minute

	// again is after how long the same host is asked the same question again.
	again = time.Second
)

// Field numbers of headgate.v1.Usage and Grants.
const (
	usageAnswers    = 13
	grantsQuestions = 9
)

// question names a question.
type question struct{ kind, about string }

// open is a question that is asked until a time.
type open struct {
	question
	until time.Time
	asked map[string]time.Time // by host: when it was asked last
}

// Answer is what a host answered.
type Answer struct {
	Host string
	Time time.Time // when it came
	JSON []byte
}

type kept struct {
	question
	Answer
}

// Board is the questions that an edge asks the programs which report to it, and their
// answers. The zero Board is ready. Safe for concurrent use.
type Board struct {
	mu   sync.Mutex // protects following fields
	open []open     // the one asked last is the last
	kept []kept     // the newest last
}

// Ask has all programs that report the key about asked a question of this kind, for a while
// from now on. Questions of the kinds not about that key are not asked any more.
func (b *Board) Ask(now time.Time, kind string, about []byte, not ...string) {
	q := question{kind, string(about)}
	b.mu.Lock()
	defer b.mu.Unlock()

	b.open = slices.DeleteFunc(b.open, func(o open) bool {
		return now.After(o.until) || o.about == q.about && slices.Contains(not, o.kind)
	})
	entry := open{question: q, asked: make(map[string]time.Time)}
	if i := slices.IndexFunc(b.open, func(o open) bool { return o.question == q }); i >= 0 {
		entry = b.open[i]
		b.open = slices.Delete(b.open, i, i+1)
		maps.DeleteFunc(entry.asked, func(_ string, last time.Time) bool { return now.Sub(last) >= keepsFor })
	}
	entry.until = now.Add(asksFor)
	b.open = append(b.open, entry)
	if extra := len(b.open) - maxOpen; extra > 0 {
		b.open = slices.Delete(b.open, 0, extra)
	}
}

// Answers returns the newest answer of each host to a question, sorted by host.
func (b *Board) Answers(now time.Time, kind string, about []byte) (all []Answer) {
	q := question{kind, string(about)}
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, k := range b.kept {
		if k.question == q && now.Sub(k.Time) < keepsFor {
			all = append(all, k.Answer)
		}
	}
	slices.SortFunc(all, func(x, y Answer) int { return strings.Compare(x.Host, y.Host) })
	return all
}

// Before returns d, which answers reports, with the Board's questions in its answers.
func (b *Board) Before(d rpc.Decider) rpc.Decider { return before{b, d} }

type before struct {
	board *Board
	next  rpc.Decider
}

// Update implements rpc.Decider.
func (d before) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if rpc.MessageName(payload.GetTypeUrl()) != rpc.MessageName(usage.ReportTypeURL) {
		return d.next.Update(ctx, host, payload)
	}
	answered, err := readAnswers(payload.GetValue())
	if err != nil {
		return nil, err
	}
	answer, failed := d.next.Update(ctx, host, payload)
	if errors.Is(failed, rpc.ErrPayload) {
		return nil, failed
	}
	now := time.Now()
	d.board.keep(now, host, answered)
	asks, rows := d.board.asks(now, host, payload)
	if len(asks) == 0 {
		return answer, failed
	}
	if failed != nil { // questions travel even if no owner answers
		if answer, err = unanswered(rows); err != nil {
			return nil, failed
		}
	}
	// One message after another is one message with the fields of both.
	more, err := proto.Marshal(&headgatepb.Grants{Questions: asks})
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: answer.GetTypeUrl(), Value: slices.Concat(answer.GetValue(), more)}, nil
}

// unanswered answers a report of so many rows, whose owners did not answer.
func unanswered(rows int) (*anypb.Any, error) {
	none := make([]float64, rows)
	g := &usage.Grants{Weight: none, Burst: none, Used: none, Lease: make([]time.Duration, rows), Unanswered: make([]int, rows)}
	for i := range rows {
		g.Unanswered[i] = i
	}
	return usage.Columnar{}.EncodeGrants(g, rows)
}

// keep keeps the answers of host that were asked for.
func (b *Board) keep(now time.Time, host string, answered []*headgatepb.Answered) {
	if len(answered) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, a := range answered {
		q := question{a.GetQuestion().GetKind(), string(a.GetQuestion().GetAbout())}
		i := slices.IndexFunc(b.open, func(o open) bool { return o.question == q })
		if i < 0 {
			continue
		}
		if _, asked := b.open[i].asked[host]; !asked && len(b.open[i].asked) >= maxKept {
			continue
		}
		b.kept = slices.DeleteFunc(b.kept, func(k kept) bool {
			return now.Sub(k.Time) >= keepsFor || k.question == q && k.Host == host
		})
		b.kept = append(b.kept, kept{q, Answer{Host: host, Time: now, JSON: slices.Clone(a.GetJson())}})
		b.forgetLocked()
	}
}

// forgetLocked forgets the oldest answers that there is no room for.
func (b *Board) forgetLocked() {
	bytes, keep := 0, len(b.kept)
	for keep > 0 && len(b.kept)-keep < maxKept && bytes+len(b.kept[keep-1].JSON) <= maxKeptBytes {
		keep--
		bytes += len(b.kept[keep].JSON)
	}
	b.kept = slices.Delete(b.kept, 0, keep)
}

// asks returns what to ask host, whose report payload is, and how many rows that has.
func (b *Board) asks(now time.Time, host string, payload *anypb.Any) (asks []*headgatepb.Question, rows int) {
	due := b.due(now, host)
	var r usage.Report
	if len(due) == 0 || (usage.Columnar{}).DecodeReport(payload, &r) != nil { // what answers it has read it
		return nil, 0
	}
	due = slices.DeleteFunc(due, func(q question) bool { return !slices.Contains(r.Keys, q.about) })
	due = due[:min(len(due), MaxCarried)]
	for _, q := range due {
		asks = append(asks, &headgatepb.Question{Kind: q.kind, About: []byte(q.about)})
	}
	b.note(now, host, due)
	return asks, r.Len()
}

// due returns the questions that host may be asked, the newest first.
func (b *Board) due(now time.Time, host string) (due []question) {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, o := range slices.Backward(b.open) {
		last, asked := o.asked[host]
		if now.After(o.until) || asked && now.Sub(last) < again || !asked && len(o.asked) >= maxKept {
			continue
		}
		due = append(due, o.question)
	}
	return due
}

// note notes that host is asked these questions.
func (b *Board) note(now time.Time, host string, asked []question) {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, o := range b.open {
		if slices.Contains(asked, o.question) {
			o.asked[host] = now
		}
	}
}

// readAnswers returns the answers in a report. The error is an ErrPayload.
func readAnswers(message []byte) (all []*headgatepb.Answered, err error) {
	err = wire.Each(message, usageAnswers, func(row []byte) error {
		a := new(headgatepb.Answered)
		if err := proto.Unmarshal(row, a); err != nil {
			return rpc.Refuse("an answer cannot be read: %v", err)
		}
		if n := len(a.GetJson()); n > MaxAnswer || len(all) == MaxCarried {
			return rpc.Refuse("a report has at most %d answers, each of at most %d bytes", MaxCarried, MaxAnswer)
		}
		all = append(all, a)
		return questions.Check(a.GetQuestion())
	})
	return all, err
}

// readQuestions returns the questions in grants. The error is an ErrPayload.
func readQuestions(message []byte) (all []*headgatepb.Question, err error) {
	err = wire.Each(message, grantsQuestions, func(row []byte) error {
		q := new(headgatepb.Question)
		if err := proto.Unmarshal(row, q); err != nil {
			return rpc.Refuse("a question cannot be read: %v", err)
		}
		if len(all) == MaxCarried {
			return rpc.Refuse("grants have at most %d questions", MaxCarried)
		}
		all = append(all, q)
		return questions.Check(q)
	})
	return all, err
}

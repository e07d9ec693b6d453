// SPDX-License-Identifier: Apache-2.0

package carried

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/usage"
)

// room is how large a report may be with answers in it: transports carry 4 MiB.
const room = 7 << 19

// Program asks an edge on behalf of a host that listens nowhere, and answers what the edge
// asks along with its grants. Its exported fields do not change. Safe for concurrent use.
type Program struct {
	// Edge answers the reports.
	Edge rpc.Decider

	// Answers answer the questions by their kinds. Others are not answered.
	Answers questions.Answers

	mu      sync.Mutex             // protects waiting
	waiting []*headgatepb.Answered // for the next report, at most MaxCarried
}

var _ rpc.Decider = (*Program)(nil)

// Update implements rpc.Decider.
func (p *Program) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if rpc.MessageName(payload.GetTypeUrl()) != rpc.MessageName(usage.ReportTypeURL) {
		return p.Edge.Update(ctx, host, payload)
	}
	answer, err := p.Edge.Update(ctx, host, p.with(payload))
	if err != nil {
		return nil, err // the edge asks again
	}
	asked, err := readQuestions(answer.GetValue())
	if err != nil {
		return nil, err
	}
	for _, q := range asked {
		p.answer(ctx, q)
	}
	return answer, nil
}

// with returns payload with the answers that wait, as far as there is room for them.
func (p *Program) with(payload *anypb.Any) *anypb.Any {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()

	value := payload.GetValue()
	for _, a := range waiting {
		more, err := proto.Marshal(&headgatepb.Usage{Answers: []*headgatepb.Answered{a}})
		if err == nil && len(value)+len(more) <= room {
			// One message after another is one message with the fields of both.
			value = slices.Concat(value, more)
		}
	}
	return &anypb.Any{TypeUrl: payload.GetTypeUrl(), Value: value}
}

// answer has the answer to q wait for the next report. What fails is not answered.
func (p *Program) answer(ctx context.Context, q *headgatepb.Question) {
	answer := p.Answers[q.GetKind()]
	if answer == nil {
		return
	}
	v, err := answer(ctx, q.GetAbout())
	if err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > MaxAnswer {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()

	if len(p.waiting) < MaxCarried {
		p.waiting = append(p.waiting, &headgatepb.Answered{Question: q, Json: text})
	}
}

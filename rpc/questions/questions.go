// SPDX-License-Identifier: Apache-2.0

// Package questions is the message family by which hosts ask each other what operators
// want to know: what each of them knows of a key, for instance. Some questions are orders,
// such as to make a bucket full again.
//
//	answers := questions.Answers{"key": func(ctx context.Context, about []byte) (any, error) { … }}
//	mux.Register(questions.TypeURL, answers)
//	…
//	err := questions.Ask(ctx, peer, self, "key", []byte("login:alice"), &status)
//
// The answers are JSON, because people read them, and hosts of several releases answer one
// question: fields that the asker does not know are left out.
package questions

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// TypeURL is that of a question.
var TypeURL = rpc.TypeURL(new(headgatepb.Question))

// Bounds of a question and its answer, in bytes.
const (
	MaxKind   = 64
	MaxAbout  = 4096
	MaxAnswer = 4 << 20
)

// Answers answer the questions of other hosts, by their kinds. They do not change, and are
// safe for concurrent use if the functions are.
type Answers map[string]func(ctx context.Context, about []byte) (any, error)

var _ rpc.Decider = Answers(nil)

// Update implements rpc.Decider.
func (a Answers) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	q, err := decode(payload)
	if err != nil {
		return nil, err
	}
	answer := a[q.GetKind()]
	if answer == nil {
		return nil, rpc.Refuse("this host, which may be of another release, does not know what %q asks", q.GetKind())
	}
	v, err := answer(ctx, q.GetAbout())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("answer %q: %w", q.GetKind(), err)
	}
	if len(text) > MaxAnswer {
		return nil, fmt.Errorf("the answer to %q has %d bytes, and %d is the most: ask for less", q.GetKind(), len(text), MaxAnswer)
	}
	return anypb.New(&headgatepb.Answer{Json: text})
}

// Check returns what in q is against the contract; the error is an ErrPayload.
func Check(q *headgatepb.Question) error {
	if n := len(q.GetKind()); n == 0 || n > MaxKind || len(q.GetAbout()) > MaxAbout {
		return rpc.Refuse("a question has a kind of 1 to %d bytes, and is about at most %d", MaxKind, MaxAbout)
	}
	return nil
}

func decode(payload *anypb.Any) (*headgatepb.Question, error) {
	message, err := wire.Body(payload, TypeURL)
	if err != nil {
		return nil, err
	}
	q := new(headgatepb.Question)
	if err := proto.Unmarshal(message, q); err != nil {
		return nil, rpc.Refuse("the question cannot be read: %v", err)
	}
	return q, Check(q)
}

// Ask asks a host, as self, a question of this kind, and puts the answer into v, a pointer.
func Ask(ctx context.Context, host rpc.Decider, self, kind string, about []byte, v any) error {
	payload, err := anypb.New(&headgatepb.Question{Kind: kind, About: about})
	if err != nil {
		return err
	}
	answered, err := host.Update(ctx, self, payload)
	if err != nil {
		return err
	}
	var answer headgatepb.Answer
	if err := answered.UnmarshalTo(&answer); err != nil {
		return rpc.Refuse("the answer to a question cannot be read: %v", err)
	}
	if len(answer.GetJson()) > MaxAnswer {
		return rpc.Refuse("the answer to a question has %d bytes, and %d is the most", len(answer.GetJson()), MaxAnswer)
	}
	if err := json.Unmarshal(answer.GetJson(), v); err != nil {
		return rpc.Refuse("the answer to a question is no JSON of its kind: %.200v", err)
	}
	return nil
}

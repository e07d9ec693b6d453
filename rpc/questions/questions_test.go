// SPDX-License-Identifier: Apache-2.0

package questions_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/questions"
)

type found struct {
	About, Note string
	Count       int
}

var answers = questions.Answers{
	"echo":  func(_ context.Context, about []byte) (any, error) { return found{About: string(about)}, nil },
	"fails": func(context.Context, []byte) (any, error) { return nil, errors.New("the key is gone") },
	"huge":  func(context.Context, []byte) (any, error) { return strings.Repeat("x", questions.MaxAnswer), nil },
	"never": func(context.Context, []byte) (any, error) { return make(chan int), nil },
}

// host answers any question with an answer.
type host struct{ answer *anypb.Any }

func (h host) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) { return h.answer, nil }

func TestAQuestionIsAnsweredOrSaysWhyNot(t *testing.T) {
	var got found
	if err := questions.Ask(t.Context(), answers, "here", "echo", []byte("login:é"), &got); err != nil || got.About != "login:é" {
		t.Fatalf("echo: %+v, %v", got, err)
	}
	for kind, want := range map[string]string{
		"fails": "the key is gone", "huge": "ask for less", "never": "answer \"never\"", "other": "may be of another release",
		strings.Repeat("k", questions.MaxKind+1): "1 to 64 bytes",
	} {
		if err := questions.Ask(t.Context(), answers, "here", kind, nil, &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", kind, err, want)
		}
	}
	if err := questions.Ask(t.Context(), answers, "here", "echo", make([]byte, questions.MaxAbout+1), &got); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("a long question: %v", err)
	}
}

func TestHostsThatAnswerGarbage(t *testing.T) {
	wrong, _ := anypb.New(&headgatepb.Heard{By: 1})
	number, _ := anypb.New(&headgatepb.Answer{Json: []byte("7")})
	cut, _ := anypb.New(&headgatepb.Answer{Json: []byte(`{"About": "x`)})
	long, _ := anypb.New(&headgatepb.Answer{Json: []byte(`{"Count": ` + strings.Repeat("7", 10_000) + `}`)})
	for name, answer := range map[string]*anypb.Any{"nothing": nil, "another type": wrong, "a number": number, "half": cut, "a long number": long} {
		var got found
		if err := questions.Ask(t.Context(), host{answer}, "here", "echo", nil, &got); !errors.Is(err, rpc.ErrPayload) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, kind := range []string{"echo", "fails", "other"} {
		q, _ := anypb.New(&headgatepb.Question{Kind: kind, About: []byte("k")})
		f.Add(q.GetTypeUrl(), q.GetValue())
	}
	f.Fuzz(func(t *testing.T, url string, value []byte) {
		answer, err := answers.Update(t.Context(), "other", &anypb.Any{TypeUrl: url, Value: value})
		if (answer == nil) == (err == nil) {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

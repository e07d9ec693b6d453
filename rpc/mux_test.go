// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// says answers everything with the same word.
func says(t *testing.T, word string) rpc.Decider {
	answer := anyOf(t, wrapperspb.String(word))
	return rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return answer, nil })
}

func TestMuxHandsOnByType(t *testing.T) {
	var mux rpc.Mux
	if err := mux.Register(usage.ReportTypeURL, says(t, "usage")); err != nil {
		t.Fatal(err)
	}
	if err := mux.Register(rpc.TypeURL(&structpb.Struct{}), says(t, "struct")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ typeURL, want string }{
		{usage.ReportTypeURL, "usage"},
		{"elsewhere.example/headgate.v1.Usage", "usage"},
		{"headgate.v1.Usage", "usage"},
		{"type.googleapis.com/google.protobuf.Struct", "struct"},
	} {
		answer, err := mux.Update(t.Context(), "a", &anypb.Any{TypeUrl: row.typeURL})
		if err != nil {
			t.Errorf("%s: %v", row.typeURL, err)
			continue
		}
		var word wrapperspb.StringValue
		if err := answer.UnmarshalTo(&word); err != nil {
			t.Fatal(err)
		}
		if word.GetValue() != row.want {
			t.Errorf("%s went to %q, want %q", row.typeURL, word.GetValue(), row.want)
		}
	}
}

func TestMuxNamesWhatItKnows(t *testing.T) {
	var mux rpc.Mux
	_, err := mux.Update(t.Context(), "a", anyOf(t, wrapperspb.String("?")))
	if !errors.Is(err, rpc.ErrUnknownType) || !strings.Contains(err.Error(), "knows none") {
		t.Errorf("an empty mux says: %v", err)
	}
	for _, typeURL := range []string{usage.ReportTypeURL, "example/b.B"} {
		if err := mux.Register(typeURL, says(t, "")); err != nil {
			t.Fatal(err)
		}
	}
	for _, payload := range []*anypb.Any{nil, {}, anyOf(t, wrapperspb.String("?")), {TypeUrl: "x/" + strings.Repeat("y", 1<<20)}} {
		_, err := mux.Update(t.Context(), "a", payload)
		if !errors.Is(err, rpc.ErrUnknownType) || !strings.Contains(err.Error(), "knows b.B, headgate.v1.Usage") {
			t.Errorf("%.200v", err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes of the sender's choosing", len(err.Error()))
		}
	}
}

func TestMuxRefusesTwoDecidersOfOneType(t *testing.T) {
	var mux rpc.Mux
	if err := mux.Register("a/x.Y", says(t, "")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		typeURL string
		decider rpc.Decider
		want    string
	}{
		{"b/x.Y", says(t, ""), "there is one already"},
		{"", says(t, ""), "no message name"},
		{"a/", says(t, ""), "no message name"},
		{"a/z.Z", nil, "it is nil"},
	} {
		if err := mux.Register(row.typeURL, row.decider); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("register %q: %v, want %q", row.typeURL, err, row.want)
		}
	}
}

func TestAPanicBecomesAnError(t *testing.T) {
	cause := errors.New("out of ink")
	var mux rpc.Mux
	err := mux.Register("x.Y", rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic(cause) }))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := mux.Update(t.Context(), "a", &anypb.Any{TypeUrl: "x.Y"})
	var panicked *rpc.PanicError
	if answer != nil || !errors.As(err, &panicked) || !errors.Is(err, cause) {
		t.Fatalf("%v, %v", answer, err)
	}
	if !strings.Contains(string(panicked.Stack), "mux_test.go") || strings.Contains(err.Error(), "mux_test.go") {
		t.Errorf("the stack is for the log only: %v", err)
	}
}

func TestNothingIsNotAnAnswer(t *testing.T) {
	silent := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, nil })
	_, err := rpc.Ask(t.Context(), silent, "a", &anypb.Any{})
	wantRefused(t, err, "neither an answer nor an error")
}

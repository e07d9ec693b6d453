// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/rpc"
)

// says answers everything with the same word.
func says(t *testing.T, word string) rpc.Decider {
	answer := anyOf(t, wrapperspb.String(word))
	return rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return answer, nil })
}

func wantMessage(t tb, payload *anypb.Any, m proto.Message) {
	t.Helper()
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(payload.Value, want) {
		t.Fatal(fmt.Sprintf("wrote       % x\ngenerated % x", payload.Value, want))
	}
}

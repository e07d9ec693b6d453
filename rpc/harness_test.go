// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
)

func TestMain(m *testing.M) { waittest.Main(m) }

type tb interface {
	Helper()
	Fatal(args ...any)
}

func anyOf(t tb, m proto.Message) *anypb.Any {
	t.Helper()
	payload, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func wantRefused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("%v is not an ErrPayload", err)
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}

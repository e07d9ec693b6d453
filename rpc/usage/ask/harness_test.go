// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type tb interface {
	Helper()
	Fatal(args ...any)
}

type deciderFunc func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error)

func (f deciderFunc) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	return f(ctx, host, payload)
}

func wantRefused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("%v is not an ErrPayload", err)
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say %q", err, want)
	}
}

type byPrefix struct{}

func (byPrefix) Owner(key string) string {
	owner, _, _ := strings.Cut(key, ":")
	return owner
}

type owners map[string]string

func (o owners) Owner(key string) string { return o[key] }

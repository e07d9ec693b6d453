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

type owners map[string]string

func (o owners) Owner(key string) string { return o[key] }

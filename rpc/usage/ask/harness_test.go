// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	goleak.VerifyTestMain(m)
}

type owners map[string]string

func (o owners) Owner(key string) string { return o[key] }

// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	waittest.Main(m)
}

type owners map[string]string

func (o owners) Owner(key string) string { return o[key] }

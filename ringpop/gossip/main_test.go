// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	pushPull = time.Hour // what hosts know must not depend on it
	goleak.VerifyTestMain(m)
}

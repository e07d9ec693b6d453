// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) {
	pushPull = time.Hour // what hosts know must not depend on it
	waittest.Main(m)
}

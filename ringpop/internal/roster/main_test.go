// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"testing"

	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

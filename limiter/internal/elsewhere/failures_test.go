// SPDX-License-Identifier: Apache-2.0

package elsewhere_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
)

// Where an owner answers too late, or not at all, the log says what to set. For other errors, that would not help.
func TestTheLogSaysWhatToDoAboutLateAnswers(t *testing.T) {
	for err, hints := range map[error]bool{fmt.Errorf("ask: %w", context.DeadlineExceeded): true, errors.New("refused"): false} {
		var log bytes.Buffer
		f := elsewhere.Failures{Log: slog.New(slog.NewTextHandler(&log, nil))}
		if f.Failed("k", "auto", err, true); strings.Contains(log.String(), "ask_timeout") != hints || !strings.Contains(log.String(), "key=k") {
			t.Errorf("of %v, it says %s", err, log.String())
		}
	}
}

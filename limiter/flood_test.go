// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// lines counts the lines that f logs.
func lines(f func(log *slog.Logger)) int {
	var log bytes.Buffer
	f(slog.New(slog.NewTextHandler(&log, nil)))
	return bytes.Count(log.Bytes(), []byte("\n"))
}

func TestStrangersDoNotFloodTheLog(t *testing.T) {
	n := lines(func(log *slog.Logger) {
		g := NewGroup(snapshot(t, alone(1, 1)), 1, WithLogger(log))
		for i := range 5000 {
			allowAt(g.For(fmt.Sprint("stranger", i)), second+stage.Instant(i)*second/1000, 1)
		}
	})
	if n != 5 {
		t.Errorf("%d lines in 5 s about 5000 keys without a rule, want 5", n)
	}
}

func TestAShakyRemoteDoesNotFloodTheLog(t *testing.T) {
	for _, failure := range []error{errors.New("timeout"), stage.ErrNonsense} {
		n := lines(func(log *slog.Logger) {
			calls := 0
			shaky := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) {
				if calls++; calls%10 == 0 {
					return stage.Outcome{}, failure
				}
				return stage.Outcome{OK: true}, nil
			})
			rule := dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: "own"}
			g := NewGroup(snapshot(t, rule), 1, WithRemote("own", shaky), WithLogger(log), WithBackground(func(f func()) { f() }))
			for i := range 5000 {
				allowAt(g.For("k"), second+stage.Instant(i)*second/1000, 1)
			}
		})
		if n > 10 {
			t.Errorf("%v: %d lines in 5 s about 5000 events", failure, n)
		}
	}
}

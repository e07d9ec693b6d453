// SPDX-License-Identifier: Apache-2.0

package lastgood

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
)

// A copy that could not be written, as on a full disk, is there as soon as it can be, without
// another change: a daemon that is restarted while its source is gone would bring back limits
// that were changed before.
func TestACopyThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	parse := func(limit string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Parse("version", []byte("limits:\n  - {key: a, limit: "+limit+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second, third := parse("1/s"), parse("2/s"), parse("3/s")
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		g := New(memory.New(first), "limits.yaml", dir, slog.New(slog.NewTextHandler(&lines, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			if err := g.Watch(ctx, func(*dynamicconfig.Snapshot, error) {}); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		g.Save(nil, first)
		g.Save(first, second) // there is no such directory
		kept := func() string {
			time.Sleep(2 * again) // of the bubble
			synctest.Wait()
			s, err := readCopy(g.path)
			if err != nil {
				return err.Error()
			}
			return s.Text()
		}
		if got := kept(); !strings.Contains(got, "no such file") || g.Err() == nil {
			t.Errorf("without its directory, the copy is %q, and Err says %v", got, g.Err())
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := kept(); got != second.Text() || g.Err() != nil {
			t.Errorf("once there is room, the copy is %q, want %q, and Err says %v", got, second.Text(), g.Err())
		}
		g.Save(second, third)
		if got := kept(); got != third.Text() {
			t.Errorf("after the next change, the copy is %q, want %q", got, third.Text())
		}
		if n := strings.Count(lines.String(), "cannot be kept"); n != 2 || strings.Count(lines.String(), "kept for the next start again") != 1 {
			t.Errorf("it logged\n%s", lines.String())
		}
	})
}

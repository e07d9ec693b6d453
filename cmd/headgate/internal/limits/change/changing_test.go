// SPDX-License-Identifier: Apache-2.0

package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
)

// readOnly is a store that refuses all changes.
type readOnly struct{ history.Store }

func (readOnly) Append(context.Context, history.Change) (history.Version, error) {
	return history.Version{}, errors.New("you may not")
}

func parsed(t *testing.T, text string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAChangeThatTheStoreRefusesIsNotSaidToBeMade(t *testing.T) {
	old, s := parsed(t, "limits: [{key: a, limit: 5/s}]"), parsed(t, "limits: [{key: a, limit: 6/s}]")
	var out bytes.Buffer
	cmd := &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
	cmd.SetOut(&out)
	var c changing
	c.flags(cmd)
	err := c.store(t.Context(), cmd, readOnly{}, history.Version{Number: 1, Text: old.Text()}, old, s)
	if err == nil || out.Len() > 0 {
		t.Errorf("%v, and it says %q", err, out.String())
	}
}

// Try implements history.Trier.
func (readOnly) Try(context.Context, history.Change) error { return errors.New("you may not") }

// An operator without the right to a dangerous change gets the refusal, and is not asked "Do it?" first. A dry run fails too.
func TestNobodyIsAskedAboutAChangeThatIsRefused(t *testing.T) {
	old, s := parsed(t, "limits: [{key: a, limit: 5/s}]"), parsed(t, "limits: [{key: a, limit: 1/s}]")
	for _, dry := range []bool{false, true} {
		var out bytes.Buffer
		cmd := &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetIn(strings.NewReader("y\n"))
		var c changing
		c.flags(cmd)
		c.dryRun = dry
		err := c.store(t.Context(), cmd, readOnly{}, history.Version{Number: 1, Text: old.Text()}, old, s)
		if err == nil || err.Error() != "you may not" || out.Len() > 0 {
			t.Errorf("dry run %v: %v, and it says %q", dry, err, out.String())
		}
	}
}

// A review of ten times as many changes takes about ten times as much memory, and so about ten times as long.
func TestAReviewCostsAsMuchAsThereAreChanges(t *testing.T) {
	none, err := dynamicconfig.Config{}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	allocated := func(rules int) uint64 {
		var text strings.Builder
		text.WriteString("limits:\n")
		for i := range rules {
			fmt.Fprintf(&text, "- {key: k%d, limit: 1/s}\n", i)
		}
		s, err := dynamicconfig.Parse("limits", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{}
		c := changing{dryRun: true}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		differs, err := c.review(cmd, none, s, true, func() error { return nil })
		runtime.ReadMemStats(&after)
		if err != nil || strings.Count(differs, "\n") != rules {
			t.Fatalf("%v: %.200s", err, differs)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(1000), allocated(10_000); many > 20*few {
		t.Errorf("1,000 changes take %d bytes, and 10,000 take %d", few, many)
	}
}

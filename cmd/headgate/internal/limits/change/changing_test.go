// SPDX-License-Identifier: Apache-2.0

package change

import (
	"bytes"
	"context"
	"errors"
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

func TestAChangeThatTheStoreRefusesIsNotSaidToBeMade(t *testing.T) {
	parse := func(text string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Parse("limits", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old, s := parse("limits: [{key: a, limit: 5/s}]"), parse("limits: [{key: a, limit: 6/s}]")
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

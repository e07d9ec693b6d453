// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/waittest"
)

func TestTheProgramPrintsWhatEachNodeDid(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "parts of the job\n") != 3 {
		t.Errorf("%s", &out)
	}
}

// weight is a node's part of the limit, and whether it has a grant.
func weight(node *headgate.Node) (part float64, granted bool) {
	node.For("job:1").Allow()
	st, ok := node.Group().Inspect("job:1")
	if !ok || len(st.Shares) != 1 {
		return 0, false
	}
	return st.Shares[0].Weight, !st.Shares[0].Fallback
}

func TestTheFirstNodeHasTheKeyUntilItLeavesIt(t *testing.T) {
	nodes, err := start(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, node := range nodes {
			if err := node.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	has := func(node *headgate.Node, want float64) func() bool {
		return func() bool {
			part, granted := weight(node)
			return granted && part == want
		}
	}
	waittest.Until(t, "the first has the key", has(nodes[0], 1))
	waittest.Until(t, "the second has nothing of it", func() bool { return has(nodes[1], 0)() && has(nodes[0], 1)() })
	// The first does not use the key any more.
	waittest.Until(t, "the second has the key", has(nodes[1], 1))
}

// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A Mesh whose collaborators are nil, or whose numbers make no sense, works with its defaults.
func TestAMeshWorksWithoutWhatIsNil(t *testing.T) {
	rule := &dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1}
	for name, option := range map[string]Option{"option": nil, "logger": WithLogger(nil), "scope": WithScope(nil)} {
		m := New("a", func(string) (*dynamicconfig.Rule, bool) { return rule, true }, Config{MaxKeys: -1, Interval: -time.Second}, option)
		if o, err := m.Do(context.Background(), stage.Operation{Key: "k", Rule: rule, N: 1}); err != nil || !o.OK {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// Without Peers, no other host receives anything, and the host's own buckets decide.
func TestAMeshWithoutPeers(t *testing.T) {
	m := New("a", always(ruled(1, 1)), Config{})
	m.SetPeers([]string{"a", "b"})
	m.Leave(context.Background(), nil)
	if o, err := m.Do(context.Background(), stage.Operation{Key: "k", Rule: ruled(1, 1), N: 1}); err != nil || !o.OK {
		t.Errorf("%+v, %v", o, err)
	}
}

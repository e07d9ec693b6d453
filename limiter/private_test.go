// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

func TestAPrivateKeyIsNotShown(t *testing.T) {
	s, err := dynamicconfig.Parse("l", []byte("defaults: {private: true}\nlimits:\n  - {key: \"login:*\", limit: 10/s, algorithm: even}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	g := limiter.NewGroup(s, 1, limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	g.For("nobody:alice").Allow()
	g.For("login:alice").Allow()
	if text := log.String(); !strings.Contains(text, "key=#") || strings.Contains(text, "alice") {
		t.Errorf("logged %s", text)
	}
	if st, ok := g.Inspect("login:alice"); !ok || st.Key != s.Shown("login:alice") || strings.Contains(st.Key, "alice") {
		t.Errorf("the status is of %q", st.Key)
	}
}

// Services log the errors of Wait, so these have no private key, and no more of a key than a valid one has.
func TestErrorsHaveKeysAsLogsMay(t *testing.T) {
	s, err := dynamicconfig.Parse("l", []byte("defaults: {private: true}\nlimits:\n  - {key: \"login:*\", limit: 1 in-flight, algorithm: even}\n  - {key: \"rate:*\", limit: 0/s, algorithm: even}\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := limiter.NewGroup(s, 1)
	for _, key := range []string{"login:alice", "rate:alice", "rate:alice" + strings.Repeat("x", 1<<20)} {
		l := g.For(key)
		_, slots := l.Acquire(t.Context(), 2)
		if wait := l.Wait(t.Context()); wait == nil || slots == nil || strings.Contains(wait.Error()+slots.Error(), "alice") || len(wait.Error()+slots.Error()) > 1<<10 {
			t.Errorf("%.20s: %.200v; %.200v", key, wait, slots)
		}
	}
	open := limiter.NewGroup(nil, 1).For(strings.Repeat("x", 1<<20))
	if err := open.Wait(t.Context()); err == nil || len(err.Error()) > 2<<10 {
		t.Errorf("%.200v", err)
	}
}

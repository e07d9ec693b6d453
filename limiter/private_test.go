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

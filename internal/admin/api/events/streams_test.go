// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// listener tells when it is sent something.
type listener struct {
	*httptest.ResponseRecorder
	sent chan<- struct{}
}

func (l listener) Flush() { l.sent <- struct{}{} }

// Streams leave connections for what else operators ask.
func TestStreamsAreBounded(t *testing.T) {
	f := New(time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := make(chan struct{}, maxStreams)
	var open sync.WaitGroup
	listen := func(ctx context.Context) error {
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/events", http.NoBody)
		return f.Stream(listener{httptest.NewRecorder(), sent}, r, func() bool { return true })
	}
	for range maxStreams {
		open.Go(func() {
			if err := listen(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxStreams {
		<-sent
	}
	if err := listen(ctx); err == nil || !strings.Contains(err.Error(), "128 readers listen") {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	open.Wait()
	if err := listen(ctx); err != nil {
		t.Errorf("after all have gone: %v", err)
	}
}

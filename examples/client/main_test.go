// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/daemon"
)

func TestTheExampleImportsAtTheLimit(t *testing.T) {
	// A machine that is busy answers late; the example is not about that.
	text, err := os.ReadFile("limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, bytes.Replace(text, []byte("defaults:\n"), []byte("defaults:\n  ask_timeout: 10s\n"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), daemon.Config{Limits: limits, Listen: "127.0.0.1:0", Edge: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop(context.Background())

	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{d.Edge()}, limits, 1, writer)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	for second := range 3 {
		var rate float64
		if !lines.Scan() {
			t.Fatal("it ended by itself")
		}
		if _, err := fmt.Sscanf(lines.Text(), "%g rows/s", &rate); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		// The first second has the burst on top.
		if second > 0 && (rate < 35 || rate > 60) {
			t.Errorf("second %d: %v rows/s at a limit of 50/s", second+1, rate)
		}
	}
	stop()
	for lines.Scan() {
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

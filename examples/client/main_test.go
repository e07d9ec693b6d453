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
	"time"

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
	ended, began := make(chan error, 1), time.Now()
	go func() {
		ended <- run(ctx, []string{d.Edge()}, limits, 1, writer)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	const limit, burst = 50, 50
	for rows, first, steady := 0.0, true, false; !steady; first = false {
		var rate float64
		if !lines.Scan() {
			t.Fatal("it ended by itself")
		}
		if _, err := fmt.Sscanf(lines.Text(), "%g rows/s", &rate); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		// A line tells of a second or more, and is rounded.
		rows += rate - 0.5
		took := time.Since(began)
		if rows > burst+limit*took.Seconds() {
			t.Fatalf("%v rows or more in %v at a limit of %d/s with a burst of %d", rows, took, limit, burst)
		}
		// The first line has the burst on top, as has one after the machine stood still.
		steady = !first && rate >= 0.8*limit && rate <= 1.1*limit
		if !steady && took > time.Minute {
			t.Fatalf("%v rows/s after a minute at a limit of %d/s", rate, limit)
		}
	}
	stop()
	for lines.Scan() {
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

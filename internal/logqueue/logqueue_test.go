// SPDX-License-Identifier: Apache-2.0

package logqueue

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a Writer whose Write waits until it may go on.
type reader struct {
	read bytes.Buffer
	on   chan struct{}
	err  error
}

func (r *reader) Write(p []byte) (int, error) {
	<-r.on
	if r.err != nil {
		return 0, r.err
	}
	return r.read.Write(p)
}

func TestAReaderThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{on: make(chan struct{})}
		w := New(r)
		const lines = 40_000
		var all strings.Builder
		for i := range lines {
			line := fmt.Sprintf("line %d\n", i)
			all.WriteString(line)
			if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
			if i == 0 {
				synctest.Wait() // the first is being written
			}
		}
		lost := w.Lost()
		if lost <= 0 || lost >= lines {
			t.Errorf("%d of %d lines were lost", lost, lines)
		}
		close(r.on)
		synctest.Wait()
		plain := slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				a = slog.Attr{}
			}
			return a
		}})
		log := slog.New(w.Telling(plain))
		log.With("a", 1).Info("after")
		log.Info("later")
		w.Close(time.Hour)
		// What was not lost is there, in order, and each line is whole. The next one says what is missing.
		read, ok := strings.CutSuffix(r.read.String(), fmt.Sprintf("level=INFO msg=after a=1 lost=%d\nlevel=INFO msg=later\n", lost))
		if !ok || !strings.HasPrefix(all.String(), read) || strings.Count(read, "\n") != lines-int(lost) {
			t.Errorf("%d of %d lines, %d lost, and what is written later: %v", strings.Count(read, "\n"), lines, lost, ok)
		}
		if _, _ = w.Write([]byte("late\n")); w.Lost() != lost+1 {
			t.Error("a line after the end is not lost")
		}
	})
}

// A reader that never returns, or has gone, does not hold up the end.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{on: make(chan struct{})}
		w := New(r)
		_, _ = w.Write([]byte("line\n"))
		began := time.Now()
		w.Close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
		close(r.on)
		gone := &reader{on: r.on, err: errors.New("broken pipe")}
		w = New(gone)
		_, _ = w.Write([]byte("line\n"))
		w.Close(time.Hour)
		if took := time.Since(began); took != time.Second {
			t.Errorf("with a reader that has gone, took %v", took)
		}
	})
}

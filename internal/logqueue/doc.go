// SPDX-License-Identifier: Apache-2.0

// Package logqueue writes log lines without waiting for what reads them, so that a reader
// that hangs holds up nothing but the log.
//
//	lines := logqueue.New(os.Stderr)
//	defer lines.Close(time.Second)
//	log := slog.New(lines.Telling(slog.NewTextHandler(lines, nil)))
//
// Out of scope: which lines are logged, and how. One lock guards the lines that wait; one
// goroutine writes them.
package logqueue

// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"context"
	"log/slog"
)

// logWriter takes memberlist's lines, each beginning with its level. What memberlist
// calls an error is the failure of one connection or packet, which
// probes of a dead host have too: a Members logs what follows from it.
type logWriter struct{ log *slog.Logger }

var levels = []struct {
	prefix string
	level  slog.Level
}{
	{"[ERR]", slog.LevelInfo},
	{"[WARN]", slog.LevelInfo},
	{"[INFO]", slog.LevelDebug},
	{"[DEBUG]", slog.LevelDebug},
}

// maxLine is the most of a line that is logged, in bytes: packets of others are in it.
const maxLine = 500

// Write logs one line.
func (w logWriter) Write(line []byte) (int, error) {
	n, level := len(line), slog.LevelInfo
	line = bytes.TrimSpace(line)
	for _, l := range levels {
		if rest, ok := bytes.CutPrefix(line, []byte(l.prefix)); ok {
			line, level = bytes.TrimSpace(rest), l.level
			break
		}
	}
	line = bytes.TrimPrefix(line, []byte("memberlist: "))
	w.log.Log(context.Background(), level, "gossip", "said", string(line[:min(len(line), maxLine)]))
	return n, nil
}

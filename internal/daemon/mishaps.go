// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"log" //nolint:depguard // the type of http.Server.ErrorLog
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Bounds of what clients can make a server log.
const (
	// mishapsEvery is how often one cause is logged.
	mishapsEvery = time.Second
	// maxMishaps bounds the causes that are logged in that time: clients choose
	// some of the words.
	maxMishaps = 16
)

// logMishaps has a server log what goes wrong with one connection, at most once a
// second for each cause.
func logMishaps(server *http.Server, to *slog.Logger, name string) {
	server.ErrorLog = log.New(&mishaps{log: to.With("server", name)}, "", 0)
}

// mishaps is a log.Logger's writer. Safe for concurrent use.
type mishaps struct {
	log *slog.Logger

	mu       sync.Mutex // protects following fields
	since    time.Time
	logged   map[string]bool // causes, since then
	withheld int             // lines, since one was logged
}

// Write implements io.Writer. p is one line, or a panic and its stack.
func (m *mishaps) Write(p []byte) (int, error) {
	text := bytes.TrimSpace(p)
	if withheld, ok := m.admit(time.Now(), causeOf(text)); ok && withheld > 0 {
		m.log.Warn(string(text), "withheld", withheld)
	} else if ok {
		m.log.Warn(string(text))
	}
	return len(p), nil
}

// admit reports whether a line with this cause is logged now, and how many were
// not since the last that was.
func (m *mishaps) admit(now time.Time, cause string) (withheld int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.logged == nil || now.Sub(m.since) >= mishapsEvery {
		m.since, m.logged = now, make(map[string]bool)
	}
	if m.logged[cause] || len(m.logged) >= maxMishaps {
		m.withheld++
		return 0, false
	}
	m.logged[cause] = true
	withheld, m.withheld = m.withheld, 0
	return withheld, true
}

// hostPort is where a connection comes from.
var hostPort = regexp.MustCompile(`\S+:\d+`)

// causeOf is the first line of text without addresses.
func causeOf(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return hostPort.ReplaceAllString(string(line), "")
}

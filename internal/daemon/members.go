// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/headgate/headgate/ringpop"
)

const (
	// lookEvery is how often the file of members is read.
	lookEvery = 500 * time.Millisecond

	maxMembersFile = 1 << 20
)

// membersFile follows a file of addresses. It is read again and again: twice
// a second costs nothing, and misses no kind of change. A file that is broken,
// empty or gone changes nothing; one that is empty at first is waited for.
type membersFile struct {
	path string
	log  *slog.Logger
}

var _ ringpop.Members = (*membersFile)(nil)

// Watch calls update with the hosts in the file, and again when they change.
func (m *membersFile) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last []byte
	logged := ""
	for {
		hosts, text, err := readMembers(m.path)
		if err == nil && len(hosts) == 0 {
			err = fmt.Errorf("members: %s lists nobody", m.path)
		}
		switch {
		case err == nil:
			logged = ""
			if !bytes.Equal(text, last) {
				last = text
				update(hosts)
			}
		case err.Error() != logged:
			logged = err.Error()
			m.log.Error("members cannot be read, the last good list stays", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// readMembers reads the hosts in a file, and its text. Errors name the line.
func readMembers(path string) (hosts []ringpop.Host, text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxMembersFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	if len(text) > maxMembersFile {
		return nil, nil, fmt.Errorf("members: %s has more than %d bytes", path, maxMembersFile)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if host, port, err := net.SplitHostPort(line); err != nil || host == "" || port == "" {
			return nil, nil, fmt.Errorf("members: %s:%d: %.100q is not host:port; write one address a line", path, n, line)
		}
		hosts = append(hosts, ringpop.Host{Address: line})
	}
	if err := ringpop.Validate(hosts); err != nil {
		return nil, nil, fmt.Errorf("members: %s: %w", path, err)
	}
	return hosts, text, nil
}

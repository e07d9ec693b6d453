// SPDX-License-Identifier: Apache-2.0

// Package lastgood keeps a copy of the limits that were last in force, from which a daemon
// starts while their source is broken:
//
//	limits := lastgood.New(source, "/etc/headgate/limits.yaml", dir, log)
//	node, err := headgate.New(config, limits, …)
//	if err != nil {
//		err = limits.Retreat(err) // nil: try again
//	}
//	…
//	node.Limits().Subscribe(limits.Save)
//
// A copy that cannot be written, as on a full disk, is tried again until it is there.
//
// Out of scope: where limits come from. Its state in memory is one atomic pointer, and what a mutex guards.
package lastgood

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
)

// copyHeader begins a copy, before the SHA-256 of what follows the first line.
const copyHeader = "# headgate: the limits that were last in force; sha256 "

// Name is the name of the file with the limits that were last in force, of those that are at
// where, a path or a URL. Daemons with other limits may have the same directory.
func Name(where string) string {
	if abs, err := filepath.Abs(where); err == nil && !strings.Contains(where, "://") {
		where = abs
	}
	return "limits-" + checksum(where)[:16] + ".last-good"
}

// Source is a source of limits that keeps a copy of what was last in force, from which a
// daemon starts while the source is broken. Use New.
type Source struct {
	dynamicconfig.Source

	path string // of the copy; empty: there is none
	log  *slog.Logger

	instead atomic.Pointer[dynamicconfig.Snapshot] // what the next Load returns; nil: the source's

	mu      sync.Mutex              // guards what follows, and the file of the copy
	unsaved *dynamicconfig.Snapshot // is in force, and the copy is of earlier limits; nil: none
	err     error                   // why it is not saved
}

// New returns a Source of what of says, which has the limits that are at where. It keeps its copy in
// dir; empty: nowhere.
func New(of dynamicconfig.Source, where, dir string, log *slog.Logger) *Source {
	s := &Source{Source: of, log: log}
	if dir != "" {
		s.path = filepath.Join(dir, Name(where))
	}
	return s
}

// Load implements dynamicconfig.Source.
func (g *Source) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	if s := g.instead.Swap(nil); s != nil {
		return s, nil
	}
	return g.Source.Load(ctx)
}

// Retreat has the next Load return the copy, because of cause. It returns cause if that
// cannot help, with the reason.
func (g *Source) Retreat(cause error) error {
	if g.path == "" {
		return cause
	}
	s, err := readCopy(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return cause
	}
	if err != nil {
		return errors.Join(cause, fmt.Errorf("the copy of the last good limits cannot be used either: %w", err))
	}
	g.log.Warn("THE LIMITS CANNOT BE USED: this daemon starts with the last good ones; mend them", "error", cause, "copy", s.Name(), "version", s.Version())
	g.instead.Store(s)
	return nil
}

// readCopy reads what Save has written.
func readCopy(path string) (*dynamicconfig.Snapshot, error) {
	const most = int64(len(copyHeader)+2*sha256.Size+1) + dynamicconfig.MaxLargeSize
	data, err := filewatch.Read(path, most)
	if err != nil {
		return nil, err
	}
	header, text, _ := strings.Cut(string(data), "\n")
	if header != copyHeader+checksum(text) {
		return nil, fmt.Errorf("%s is damaged: remove it", path)
	}
	return dynamicconfig.Parse(path, []byte(text))
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// again is how long after a copy that could not be written it is tried again.
const again = 5 * time.Second

// Watch implements dynamicconfig.Source. Meanwhile it writes copies again that Save could not write.
func (g *Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(again):
				g.saveAgain()
			}
		}
	})
	return g.Source.Watch(ctx, update)
}

// Save keeps a copy of s, which is in force. It is for Live.Subscribe. That it fails
// stops nothing.
func (g *Source) Save(_, s *dynamicconfig.Snapshot) {
	if g.path == "" || s.Text() == "" || s.Name() == g.path {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsaved = s
	if g.write(); g.err != nil {
		g.log.Error("the limits in force cannot be kept for the next start; the daemon goes on trying", "error", g.err)
	}
}

// Err says why the copy is not of the limits in force; nil if it is, or if there is to be none.
func (g *Source) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// saveAgain writes what Save could not write.
func (g *Source) saveAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unsaved == nil {
		return
	}
	if g.write(); g.err == nil {
		g.log.Info("the limits in force are kept for the next start again")
	}
}

// write writes the copy of g.unsaved. The caller holds mu.
func (g *Source) write() {
	text := g.unsaved.Text()
	g.err = filewatch.RemediedWrite(replaceFile(g.path, copyHeader+checksum(text)+"\n"+text), g.path)
	if g.err == nil {
		g.unsaved = nil
	}
}

// replaceFile puts a file with text in place of the one at path, whole or not at all,
// also if the machine fails.
func replaceFile(path, text string) (err error) {
	prefix := filepath.Base(path) + ".tmp-"
	removeUnfinished(filepath.Dir(path), prefix)
	f, err := os.CreateTemp(filepath.Dir(path), prefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil // the file is there, and perhaps not after a failure of power
	}
	err = dir.Sync()
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// unfinished is the age of a file at which its writer has been killed: a write takes much less.
const unfinished = time.Minute

// removeUnfinished removes the files in dir whose names begin with prefix, of processes that were
// killed while they wrote them.
func removeUnfinished(dir, prefix string) {
	entries, _ := os.ReadDir(dir) // an error is also one of what comes next
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unfinished {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

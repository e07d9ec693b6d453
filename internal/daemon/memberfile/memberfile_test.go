// SPDX-License-Identifier: Apache-2.0

package memberfile

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/ringpop"
)

// notes are what one goroutine writes and another takes.
type notes struct {
	mu   sync.Mutex // protects following fields
	text bytes.Buffer
}

func (n *notes) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.text.Write(text)
}

// take returns what was written since the last take.
func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	defer n.text.Reset()
	return n.text.String()
}

func TestTheFileOfMembersIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "members.txt")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(notes)
		m := &Members{Path: path, Self: "a:1", Log: slog.New(slog.NewTextHandler(log, nil)), deaf: true}
		seen := new(notes)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- m.Watch(ctx, func(hosts []ringpop.Host) {
				var addresses []string
				for _, h := range hosts {
					addresses = append(addresses, h.Address)
				}
				fmt.Fprintln(seen, strings.Join(addresses, ","))
			})
		}()
		time.Sleep(lookEvery)
		synctest.Wait()
		if told, logged := seen.take(), log.take(); told != "" || strings.Count(logged, "lists no host") != 1 || !strings.Contains(logged, "waits for its first list") {
			t.Errorf("an empty file: told %s, logged %s", told, logged)
		}
		for _, step := range []struct{ text, want, said string }{
			{"b:1\n", "", `waits for its first list" error="members: ` + path + ` does not list this decider, a:1`},
			{"\ufeffa:1\nb:1 # the second\n\n", "a:1,b:1", ""},
			{"a:1\nb:1 # another comment\n", "a:1,b:1", ""},
			{"a:1\nb\n", "", `the last good list stays" error="members: ` + path + ":2"},
			{"a:1\nb:1 zone=b\n", "", `:2: address \"b:1 zone=b\" is not host:port`},
			{"a:1\nb:70000\n", "", "has no port from 0 to 65535"},
			{"a:1\n0.0.0.0:1\n", "", "is not one that other hosts can call"},
			{"a:1\na:1\n", "", "more than once"},
			{"", "", "lists no host"},
			{strings.Repeat("#", maxSize+1), "", "more than"},
			{"a:1\nc:1\n", "a:1,c:1", ""},
			{"c:1\n", "c:1", ""}, // it leaves
		} {
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 { // nothing is said twice
				time.Sleep(lookEvery)
				synctest.Wait()
			}
			if got := strings.TrimSpace(seen.take()); got != step.want {
				t.Errorf("%.30q: told %q, want %q", step.text, got, step.want)
			}
			logged := log.take()
			if n := strings.Count(logged, "\n"); (n == 1) != (step.said != "") || !strings.Contains(logged, step.said) {
				t.Errorf("%.30q: logged %s, want %q once", step.text, logged, step.said)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte("\ufeff10.0.0.7:7933 # a\n\n10.0.0.8:7933\n"))
	f.Add([]byte("10.0.0.7"))
	f.Add([]byte("a:1\na:1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		hosts, err := parseMembers("members.txt", text)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, h := range hosts {
			fmt.Fprintln(&again, h.Address)
		}
		if same, err := parseMembers("members.txt", []byte(again.String())); err != nil || !slices.Equal(same, hosts) {
			t.Errorf("%v comes back as %v, %v", hosts, same, err)
		}
	})
}

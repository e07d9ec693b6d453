// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
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
		path := write(t, "members.txt", "")
		log := new(notes)
		m := &membersFile{path: path, self: "a:1", options: filewatch.Options{Deaf: true, Poll: lookEvery}, log: slog.New(slog.NewTextHandler(log, nil))}
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
		if told, logged := seen.take(), log.take(); told != "" || strings.Count(logged, "lists nobody") != 1 {
			t.Errorf("an empty file: told %s, logged %s", told, logged)
		}
		for _, step := range []struct{ text, want, said string }{
			{"b:1\n", "", "does not list this decider, a:1"},
			{"\ufeffa:1\nb:1 # the second\n\n", "a:1,b:1", ""},
			{"a:1\nb:1 # another comment\n", "a:1,b:1", ""},
			{"a:1\nb\n", "", "members.txt:2"},
			{"a:1\na:1\n", "", "more than once"},
			{"", "", "lists nobody"},
			{strings.Repeat("#", maxMembersFile+1), "", "more than"},
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

func TestTheEdgeAddressIsOneThatProgramsCanDial(t *testing.T) {
	for _, tc := range []struct{ stated, at, address, want string }{
		{"", "10.0.0.7:7934", "10.0.0.7:7933", "10.0.0.7:7934"},
		{"", "[::]:7934", "10.0.0.7:7933", "10.0.0.7:7934"},
		{"", "0.0.0.0:7934", "[fe80::1]:7933", "[fe80::1]:7934"},
		{"edge.example:443", "[::]:7934", "10.0.0.7:7933", "edge.example:443"},
	} {
		at, err := net.ResolveTCPAddr("tcp", tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Config{EdgeAddress: tc.stated}).edgeAddress(at, tc.address); got != tc.want {
			t.Errorf("%s: %s, want %s", fmt.Sprint(tc), got, tc.want)
		}
	}
}

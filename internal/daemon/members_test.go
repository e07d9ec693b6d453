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
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/ringpop"
)

func TestTheFileOfMembersIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, "members.txt", "")
		log := new(bytes.Buffer)
		m := &membersFile{path: path, log: slog.New(slog.NewTextHandler(log, nil))}
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- m.Watch(ctx, func(hosts []ringpop.Host) {
				var addresses []string
				for _, h := range hosts {
					addresses = append(addresses, h.Address)
				}
				seen = append(seen, strings.Join(addresses, ","))
			})
		}()
		synctest.Wait()
		if len(seen) != 0 || strings.Count(log.String(), "lists nobody") != 1 {
			t.Errorf("an empty file: told %v, logged %s", seen, log)
		}
		for _, step := range []struct{ text, want, said string }{
			{"a:1\nb:1 # the second\n\n", "a:1,b:1", ""},
			{"a:1\nb:1 # another comment\n", "a:1,b:1", ""},
			{"a:1\nb\n", "", "members.txt:2"},
			{"a:1\na:1\n", "", "more than once"},
			{"", "", "lists nobody"},
			{strings.Repeat("#", maxMembersFile+1), "", "more than"},
			{"a:1\nc:1\n", "a:1,c:1", ""},
		} {
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			seen = nil
			log.Reset()
			for range 3 { // nothing is said twice
				time.Sleep(lookEvery)
				synctest.Wait()
			}
			if got := strings.Join(seen, " "); got != step.want {
				t.Errorf("%.30q: told %q, want %q", step.text, got, step.want)
			}
			if n := strings.Count(log.String(), "\n"); (n == 1) != (step.said != "") || !strings.Contains(log.String(), step.said) {
				t.Errorf("%.30q: logged %s, want %q once", step.text, log, step.said)
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

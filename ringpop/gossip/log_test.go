// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/ringpop"
)

// Other hosts, and strangers who send packets, cause few lines.
func TestOtherHostsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, err := New(Config{
			Cluster: "c", Host: ringpop.Host{Address: "a:1"}, Listen: "127.0.0.1:0",
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		said, others := logWriter{m.log, &m.lines.said}, (*delegate)(m)
		for i := range 1000 {
			a := &memberlist.Node{Name: fmt.Sprintf("b%d:1", i), Addr: net.IPv4(127, 0, 0, 1), Port: 1}
			b := &memberlist.Node{Name: a.Name, Addr: net.IPv4(127, 0, 0, 2), Port: 1}
			fmt.Fprintf(said, "[ERR] memberlist: packet %d is malformed: \"%d\" from=127.0.0.1:%d", i, i, i)
			fmt.Fprint(said, "[ERR] memberlist: another cause")
			others.NotifyConflict(a, b)
			b.Meta = []byte("garbage")
			others.NotifyJoin(b)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		fmt.Fprint(said, "[WARN] memberlist: one more")
		others.NotifyConflict(&memberlist.Node{Name: "last:1"}, &memberlist.Node{Name: "last:1"})
		for what, most := range map[string]int{"malformed": 10, "another cause": 10, "at one address": 11, "not on the ring": 10} {
			if n := strings.Count(log.String(), what); n == 0 || n > most {
				t.Errorf("%d lines say %q, want at most %d", n, what, most)
			}
		}
		if text := log.String(); !strings.Contains(text, "one more") || !strings.Contains(text, "address=last:1") || !strings.Contains(text, "withheld=990") {
			t.Error("a line after a quiet time is missing, or does not say how many were withheld")
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/testrun"
)

// TestADaemonWithTLSForAnyoneUnderAttack has clients send as many unfinished requests as
// they can to a daemon that asks for no certificate: over HTTP/2 if the daemon speaks it,
// where one connection has many requests, and over HTTP/1.1.
func TestADaemonWithTLSForAnyoneUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks a process for seconds")
	}
	t.Parallel()
	if err := moreFiles(); err != nil {
		t.Fatal(err)
	}
	dir, authority := t.TempDir(), certtest.New(t)
	cert, key := certtest.Encode(t, authority.Issue(t, "daemon", certtest.Loopback))
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string]string{certFile: cert, keyFile: key} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := start(t, "--tls-cert", certFile, "--tls-key", keyFile, "--admin-cert", certFile, "--admin-key", keyFile)
	d.tls = &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	many := 40
	if testrun.Long() {
		many = 2000
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	over := func(protocol string, attack func(net.Conn)) func(net.Conn) {
		config := &tls.Config{RootCAs: authority.Pool(), ServerName: "daemon", MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}}
		return func(raw net.Conn) {
			if conn := tls.Client(raw, config); conn.HandshakeContext(ctx) == nil {
				attack(conn)
			}
		}
	}
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		var attacks sync.WaitGroup
		for _, address := range []string{d.victim.HTTP, d.victim.Admin} {
			attacks.Go(func() { each(ctx, many, "tcp", address, over("h2", bodies)) })
			attacks.Go(func() {
				each(ctx, many, "tcp", address, over("http/1.1", func(c net.Conn) { halves(c, halfSentBody) }))
			})
		}
		attacks.Wait()
		if ctx.Err() != nil {
			t.Error("the daemon let the attack go on")
		}
	}()
	calls := d.honest(t, 1, ended)
	took := time.Since(began)
	_, most := d.memory(t)
	t.Logf("memory: %d MiB at most; attacked for %v; honest p99 %v (%d calls)", most, took.Round(time.Second), p99(calls), len(calls))
	if most > mostMemory {
		t.Errorf("the daemon had %d MiB, more than %d", most, mostMemory)
	}
	d.checkLog(t, began)
}

// bodies begins requests with large headers and bodies that do not end, and waits.
func bodies(conn net.Conn) {
	h := newHostile(conn)
	body := bytes.Repeat([]byte{' '}, 4000)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	for i := range uint32(100) {
		block.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "https"},
			{":path", "/v1/allow"},
			{":authority", "x"},
			{"content-type", "application/json"},
			{"content-length", "4096"},
			{"x", strings.Repeat("x", 15<<10) + fmt.Sprint(i)},
		} {
			_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		id := 2*i + 1
		h.mu.Lock()
		h.windows[id] = h.initial
		err := h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		over := h.over
		h.mu.Unlock()
		if err != nil || over || !h.send(id, body) {
			return
		}
	}
	h.wait()
}

// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bufio"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A server that is no Redis gives no answer, and no panic either.
func TestGarbageIsNoAnswer(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 200 OK\r\n\r\n", "$-7\r\n", "*3\r\n:1\r\n", "$100000\r\nhalf", "+" + strings.Repeat("x", 1<<20), "\x00\x01\x02", "*1\r\n*1\r\n*1\r\n:1\r\n", "$9223372036854775000\r\n", "*9223372036854775000\r\n", ""} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					for in := bufio.NewReader(c); ; {
						if _, err := in.ReadString('\n'); err != nil {
							return
						}
						if _, err := c.Write([]byte(answer)); err != nil {
							return
						}
					}
				}()
			}
		}()
		client := Client(Options{Addresses: []string{listener.Addr().String()}})
		b, err := New(client, Config{})
		if err != nil {
			t.Fatal(err)
		}
		op := stage.Operation{Key: "k", N: 1, Rule: &dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1}}
		before, slowest := runtime.NumGoroutine(), time.Duration(0)
		var last error
		for range 300 {
			began := time.Now()
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%.20q: a panic: %v", answer, p)
					}
				}()
				if _, last = b.Do(t.Context(), op); last == nil {
					t.Errorf("%.20q is an answer", answer)
				}
			}()
			slowest = max(slowest, time.Since(began))
		}
		t.Logf("%.20q: slowest %v, %d goroutines more, %v", answer, slowest, runtime.NumGoroutine()-before, last)
		_ = client.Close()
		_ = listener.Close()
	}
}

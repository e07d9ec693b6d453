// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// hostile returns Buckets in a server that greets as Redis 5 does and answers each script
// with answer.
func hostile(t *testing.T, answer string) *Buckets {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					command, err := readCommand(in)
					if err != nil {
						return
					}
					said := "+OK\r\n"
					switch strings.ToLower(command) {
					case "hello":
						said = "-ERR unknown command\r\n"
					case "eval", "evalsha":
						said = answer
					}
					if _, err := io.WriteString(c, said); err != nil {
						return
					}
				}
			}()
		}
	}()
	client := Client(Options{Addresses: []string{listener.Addr().String()}})
	t.Cleanup(func() { _ = client.Close() })
	b, err := New(client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readCommand returns the name of the next command.
func readCommand(in *bufio.Reader) (name string, err error) {
	number := func() (n int) {
		var line string
		if line, err = in.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for i, most := 0, number(); i < most && err == nil; i++ {
		text := make([]byte, number()+2)
		if _, failed := io.ReadFull(in, text); err == nil {
			err = failed
		}
		if i == 0 {
			name = string(text[:len(text)-2])
		}
	}
	return name, err
}

func takeOne(key string, private bool) stage.Operation {
	return stage.Operation{Key: key, N: 1, Rule: &dynamicconfig.Rule{Key: "k*", Limit: 1, Burst: 1, Private: private}}
}

// A hostile server in the place of Redis chooses the length of its answers. Errors are logged, so
// they have the beginning of an answer only.
func TestErrorsHaveTheBeginningOfAnAnswer(t *testing.T) {
	long, many := strings.Repeat("x", 100_000), "*100000\r\n"+strings.Repeat(":1\r\n", 100_000)
	for name, answer := range map[string]string{
		"an error":           "-ERR " + long + "\r\n",
		"a wrong type":       "-WRONGTYPE " + long + "\r\n",
		"a word":             "+" + long + "\r\n",
		"text":               "$100000\r\n" + long + "\r\n",
		"many values":        many,
		"many within three":  "*3\r\n:1\r\n:1\r\n" + many,
		"text for a number":  "*3\r\n:1\r\n$100000\r\n" + long + "\r\n$1\r\n1\r\n",
		"an error for one":   "*3\r\n-ERR " + long + "\r\n:1\r\n$1\r\n1\r\n",
		"lines of an error":  "-ERR " + strings.Repeat("x\n", 50_000) + "\r\n",
		"no answer of Redis": "?" + long + "\r\n",
	} {
		b := hostile(t, answer)
		for range 3 {
			if _, err := b.Do(t.Context(), takeOne("k", false)); err == nil || len(err.Error()) > 1000 {
				t.Errorf("%s: an error of %d bytes: %.300v", name, len(fmt.Sprint(err)), err)
			}
		}
	}
}

// The client panics at a length that no answer of Redis has. To callers it is a failure as any
// other, after some of which the server is paused.
func TestAnAnswerAtWhichTheClientPanicsIsAFailure(t *testing.T) {
	for _, answer := range []string{"$9223372036854775000\r\n", "*9223372036854775000\r\n"} {
		b := hostile(t, answer)
		var err error
		for range 100 {
			if _, err = b.Do(t.Context(), takeOne("k", false)); err == nil || errors.Is(err, ErrPaused) {
				break
			}
		}
		if !errors.Is(err, ErrPaused) {
			t.Errorf("%q: not paused after 100 failures: %v", answer, err)
		}
	}
}

// Errors are logged, and keys of private rules are not.
func TestErrorsDoNotHaveAPrivateKey(t *testing.T) {
	for _, answer := range []string{"-ERR no\r\n", "-WRONGTYPE no\r\n", ":7\r\n"} {
		b := hostile(t, answer)
		_, err := b.Do(t.Context(), takeOne("k:ada@example.com", true))
		if err == nil || strings.Contains(err.Error(), "ada") || !strings.Contains(err.Error(), "headgate:{k#") {
			t.Errorf("%q: %v", answer, err)
		}
		if _, err = b.Do(t.Context(), takeOne("k:ada", false)); err == nil || !strings.Contains(err.Error(), `"headgate:{k:ada}"`) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

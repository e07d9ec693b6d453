// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/internal/servertest"
	"github.com/headgate/headgate/internal/testrun"
)

// server is the etcd of all tests but those for which it is too small.
var server = newServer()

func newServer(options ...string) servertest.Server {
	return servertest.Server{Name: "etcd", Script: "../../scripts/etcd.sh", Options: options, Answers: func(address string) bool {
		s := open("etcd://" + address)
		defer s.Close()
		_, err := s.Newest(context.Background())
		return errors.Is(err, history.ErrEmpty)
	}}
}

// places counts the prefixes.
var places int

func TestMain(m *testing.M) {
	sourcetest.MaybeWrite(open)
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// patience is how long an etcd may take that shares the machine with other tests.
const patience = time.Minute

func open(url string) sourcetest.Sourced {
	s, err := Open(url, WithPoll(50*time.Millisecond), WithTimeout(patience))
	if err != nil {
		panic(err)
	}
	return s
}

// newPlace is the URL of a new prefix.
func newPlace(t *testing.T) string {
	t.Helper()
	server.Start(t)
	places++
	return fmt.Sprintf("etcd://%s/place%d", server.Address(), places)
}

func TestStore(t *testing.T) { sourcetest.Store(t, open, newPlace) }

// The server is killed, and is back with the next change.
func TestSource(t *testing.T) {
	sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
		place := newPlace(t)
		source, err := Open(place, WithPoll(50*time.Millisecond), WithTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { source.Close() })
		return sourcetest.Place{
			Source: source,
			Put: func(text string) {
				server.Start(t)
				sourcetest.Put(t, open, place, text)
			},
			Break: server.Kill,
		}
	})
}

func TestTwoWritersLoseNothing(t *testing.T) {
	changes := 50
	if testrun.Long() {
		changes = 1000
	}
	sourcetest.Race(t, open, newPlace(t), changes)
}

func TestKilledInTheMiddleOfWrites(t *testing.T) {
	times := 5
	if testrun.Long() {
		times = 25
	}
	sourcetest.Crash(t, open, newPlace(t), times)
}

// A watch reaches a source whose poll is far off.
func TestChangesAreNotified(t *testing.T) {
	place := newPlace(t)
	s := open(place)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	notified := make(chan struct{}, 100)
	done.Go(func() { s.Notify(ctx, func() { notified <- struct{}{} }) })
	next := func(what string) {
		t.Helper()
		select {
		case <-notified:
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	next("it does not watch")
	for range 3 {
		sourcetest.Put(t, open, place, "limits: []\n")
		next("a change is not notified")
	}
}

// A source looks for an etcd that is gone as often as it polls, however long it is gone.
func TestAnEtcdThatComesBackIsFoundSoon(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	attempts := make(chan struct{})
	go func() {
		defer close(attempts)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			attempts <- struct{}{}
		}
	}()
	s, err := Open("etcd://"+l.Addr().String(), WithPoll(20*time.Millisecond), WithTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Newest(t.Context())
	if want := "etcd at http://" + l.Addr().String() + ": read the limits: no answer within 100ms: check that it runs"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Newest of a listener that closes connections = %v, want %q", err, want)
	}
	late := time.After(time.Minute) // gRPC's own delays of 15 attempts take half an hour
	for range 15 {
		select {
		case <-attempts:
		case <-late:
			t.Fatal("it does not try to connect again")
		}
	}
	if err := errors.Join(s.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	for range attempts {
	}
}

// An etcd that accepts connections and is silent is named, also where a user logs in first.
func TestALoginDoesNotWaitForASilentEtcd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("ETCDCTL_USER", "ada:secret")
	s, err := Open("etcd://"+l.Addr().String(), WithTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Newest(t.Context())
	if want := "etcd at http://" + l.Addr().String() + ": log in: no answer within 50ms: check that it runs"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// Servers that are told to take them take limits as large as a file may be. Others refuse
// them, and the error says what to tell them.
func TestLargeLimits(t *testing.T) {
	server.Start(t)
	large := newServer("--max-request-bytes", "17000000")
	t.Cleanup(large.Remove)
	large.Start(t)
	for _, size := range []int{1_800_000, 3_000_000, 16_500_000} {
		text := "limits:\n  - key: a\n    limit: 1/s\n" + strings.Repeat("# and so on, as in many rules\n", size/30)
		change := history.Change{Text: text, Author: "ada", Message: "large"}
		for address, want := range map[string]string{
			server.Address(): "raise --max-request-bytes of etcd's servers",
			large.Address():  "",
		} {
			s, err := Open(fmt.Sprintf("etcd://%s/large%d", address, size), WithTimeout(patience))
			if err != nil {
				t.Fatal(err)
			}
			v, err := s.Append(t.Context(), change)
			switch {
			case want != "":
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%d bytes: %v, want %q", size, err, want)
				}
			case err != nil:
				t.Errorf("%d bytes: %v", size, err)
			default:
				if v, err = s.Get(t.Context(), v.Number); err != nil || v.Text != text {
					t.Errorf("%d bytes: read again: %d bytes, %v", size, len(v.Text), err)
				}
			}
			s.Close()
		}
	}
}

// An etcd that is full says how to make room.
func TestAFullEtcd(t *testing.T) {
	full := newServer("--quota-backend-bytes", "400000")
	t.Cleanup(full.Remove)
	full.Start(t)
	s := open("etcd://" + full.Address())
	defer s.Close()
	var err error
	for number := int64(0); number < 100 && err == nil; number++ {
		_, err = s.Append(t.Context(), history.Change{
			Base: number, Author: "ada", Message: "more",
			Text: fmt.Sprintf("limits: []\n# %d\n", number) + strings.Repeat("# many rules\n", 8_000),
		})
	}
	if want := "headgate limits prune"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://":                    "is not host:port",
		"etcd://h":                   "is not host:port",
		"etcd://h:1,i/p":             `"i" is not host:port`,
		"etcd://u:secret@h:1/p":      "put it into ETCDCTL_USER",
		"http://h:1":                 "http:// is another scheme",
		"127.0.0.1:2379":             "is another scheme",
		"etcd://h:1,[::1]:2/a/b/":    "",
		"etcds://etcd.example.com:1": "",
	} {
		s, err := Open(url)
		if want == "" {
			if err != nil {
				t.Errorf("Open(%q) = %v", url, err)
			} else if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v, want %q", url, err, want)
		}
	}
	s, err := Open("etcds://h:1,i:2/a/b/")
	if err != nil {
		t.Fatal(err)
	}
	if s.prefix != "a/b" || strings.Join(s.config.Endpoints, " ") != "https://h:1 https://i:2" {
		t.Errorf("prefix %q, endpoints %v", s.prefix, s.config.Endpoints)
	}
}

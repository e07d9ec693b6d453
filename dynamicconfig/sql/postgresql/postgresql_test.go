// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

// postgres is the server of all tests.
var postgres running

func TestMain(m *testing.M) {
	sourcetest.MaybeWrite(open)
	code := m.Run()
	postgres.kill()
	if postgres.dir != "" {
		os.RemoveAll(postgres.dir)
	}
	os.Exit(code)
}

func open(url string) sourcetest.Sourced {
	s, err := New(url, WithPoll(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	return s
}

// running is a PostgreSQL server that tests kill and start again.
type running struct {
	dir, port string
	command   *exec.Cmd
	output    bytes.Buffer
	places    int
}

const script = "../../../scripts/postgres.sh"

// newPlace is the URL of a new schema.
func newPlace(t *testing.T) string {
	t.Helper()
	postgres.start(t)
	postgres.places++
	schema := fmt.Sprintf("place%d", postgres.places)
	c, err := pgx.Connect(t.Context(), postgres.url())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	return postgres.url() + "&search_path=" + schema
}

func (r *running) url() string {
	return "postgres://postgres@127.0.0.1:" + r.port + "/postgres?sslmode=disable"
}

// start starts the server, if it does not run, and waits until it answers.
func (r *running) start(t *testing.T) {
	t.Helper()
	if r.command != nil {
		return
	}
	if r.dir == "" {
		if out, err := exec.Command("sh", script, "--install").CombinedOutput(); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("PostgreSQL is missing, and CI must have it: %v\n%s", err, out)
			}
			t.Skipf("PostgreSQL is missing: %v\n%s", err, out)
		}
		dir, err := os.MkdirTemp("", "headgate-postgres") //nolint:usetesting // all tests use it
		if err == nil {
			err = os.Chmod(dir, 0o755) // for the server's user
		}
		if err != nil {
			t.Fatal(err)
		}
		r.dir, r.port = dir, strconv.Itoa(freePort(t))
	}
	r.command = exec.Command("sh", script, r.port, filepath.Join(r.dir, "data"))
	r.command.Stdout, r.command.Stderr = &r.output, &r.output
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "PostgreSQL answers", func() bool {
		c, err := pgx.Connect(t.Context(), r.url())
		if err != nil {
			return false
		}
		return c.Close(t.Context()) == nil
	})
}

// kill ends the server and all its processes without warning.
func (r *running) kill() {
	if r.command == nil {
		return
	}
	_ = syscall.Kill(-r.command.Process.Pid, syscall.SIGKILL)
	_ = r.command.Wait() // it was killed
	r.command = nil
	// A new server refuses to start while this file names a process, and the number of the
	// one that was killed may be another's by now.
	_ = os.Remove(filepath.Join(r.dir, "data", "postmaster.pid"))
}

func freePort(t *testing.T) int {
	for range 100 {
		port := 20000 + rand.IntN(12000) // below those that the kernel gives out
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func TestStore(t *testing.T) { sourcetest.Store(t, open, newPlace) }

// The server is killed, and is back with the next change.
func TestSource(t *testing.T) {
	sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
		place := newPlace(t)
		source := open(place)
		t.Cleanup(func() { source.Close() })
		return sourcetest.Place{
			Source: source,
			Put: func(text string) {
				postgres.start(t)
				put(t, place, text)
			},
			Break: postgres.kill,
		}
	})
}

// put appends as another process would.
func put(t *testing.T, place, text string) {
	t.Helper()
	s := open(place)
	defer s.Close()
	newest, err := s.Newest(t.Context())
	if err != nil && !errors.Is(err, history.ErrEmpty) {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), history.Change{Base: newest.Number, Text: text, Author: "a test"}); err != nil {
		t.Fatal(err)
	}
}

func TestTwoWritersLoseNothing(t *testing.T) {
	changes := 100
	if testrun.Long() {
		changes = 300
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

// What a server that is killed in the middle of writes has acknowledged is there when it is
// back.
func TestTheServerIsKilledInTheMiddleOfWrites(t *testing.T) {
	place := newPlace(t)
	var acknowledged int64
	for range 3 {
		s := open(place)
		some, ended := make(chan struct{}), make(chan error, 1)
		first := acknowledged
		go func() {
			for {
				_, err := s.Append(t.Context(), history.Change{Base: acknowledged, Text: "limits: []\n", Author: strconv.FormatInt(acknowledged+1, 10)})
				if err != nil {
					ended <- err
					return
				}
				if acknowledged++; acknowledged == first+20 {
					close(some)
				}
			}
		}()
		<-some
		postgres.kill()
		if err := <-ended; err == nil {
			t.Fatal("a change without a server")
		}
		s.Close()
		postgres.start(t)
		s = open(place)
		newest, err := s.Newest(t.Context())
		if err != nil || newest.Number < acknowledged || newest.Number > acknowledged+1 || newest.Author != strconv.FormatInt(newest.Number, 10) {
			t.Fatalf("the newest version is %+v, %v; %d were acknowledged", newest, err, acknowledged)
		}
		acknowledged = newest.Number
		if list, err := s.List(t.Context(), 0, int(acknowledged)+1); err != nil || len(list) != int(acknowledged) {
			t.Fatalf("%d versions of %d: %v", len(list), acknowledged, err)
		}
		s.Close()
	}
}

// Notifications reach a source whose poll is far off.
func TestChangesAreNotified(t *testing.T) {
	place := newPlace(t)
	put(t, place, "limits: []\n")
	s, err := New(place, WithPoll(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
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
		case <-time.After(20 * time.Second):
			t.Fatal(what)
		}
	}
	next("it does not listen")
	for range 3 {
		put(t, place, "limits: []\n")
		next("a change is not notified")
	}
}

func TestURLsThatAreNone(t *testing.T) {
	for _, url := range []string{"postgres://h:port/db", "postgres://u:secret@h/db?sslmode=maybe"} {
		if _, err := New(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q) = %v", url, err)
		}
	}
}

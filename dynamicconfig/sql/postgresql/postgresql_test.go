// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/dynamicconfig/sql"
	"github.com/headgate/headgate/internal/servertest"
	"github.com/headgate/headgate/internal/testrun"
)

// postgres is the server of all tests.
var postgres = servertest.Server{Name: "postgres", Script: "../../../scripts/postgres.sh", Answers: func(address string) bool {
	c, err := pgx.Connect(context.Background(), url(address))
	return err == nil && c.Close(context.Background()) == nil
}}

func url(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// places counts the schemas.
var places int

func TestMain(m *testing.M) {
	sourcetest.MaybeWrite(open)
	code := m.Run()
	postgres.Remove()
	os.Exit(code)
}

func open(url string) sourcetest.Sourced {
	s, err := New(url, WithPoll(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	return s
}

// newPlace is the URL of a new schema.
func newPlace(t *testing.T) string {
	t.Helper()
	postgres.Start(t)
	places++
	schema := fmt.Sprintf("place%d", places)
	c, err := pgx.Connect(t.Context(), url(postgres.Address()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	return url(postgres.Address()) + "&search_path=" + schema
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
				postgres.Start(t)
				sourcetest.Put(t, open, place, text)
			},
			Break: postgres.Kill,
		}
	})
}

func TestTwoWritersLoseNothing(t *testing.T) {
	changes := 100
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
		postgres.Kill()
		if err := <-ended; err == nil {
			t.Fatal("a change without a server")
		}
		s.Close()
		postgres.Start(t)
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
	sourcetest.Put(t, open, place, "limits: []\n")
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
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	next("it does not listen")
	for range 3 {
		sourcetest.Put(t, open, place, "limits: []\n")
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

func TestAServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(url(address)).(*sql.Store)
	defer s.Close()
	if _, err := s.Newest(t.Context()); err == nil || !strings.Contains(err.Error(), "look whether PostgreSQL runs there") {
		t.Error(err)
	}
}

// If PostgreSQL refuses a call, the error says what to do.
func TestWhatPostgreSQLRefuses(t *testing.T) {
	place := newPlace(t)
	sourcetest.Put(t, open, place, "limits: []\n")
	admin, err := pgx.Connect(t.Context(), url(postgres.Address()))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), fmt.Sprintf("CREATE USER weak%[1]d; GRANT USAGE ON SCHEMA place%[1]d TO weak%[1]d", places)); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		place + "&default_transaction_read_only=on":                            "name the primary",
		strings.Replace(place, "postgres@", fmt.Sprintf("weak%d@", places), 1): "must own the tables headgate_limits and headgate_migrations",
	} {
		s := open(place)
		_, err := s.Append(t.Context(), history.Change{Base: 1, Text: "limits: []\n# again\n", Author: "ada"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", place, err, want)
		}
		s.Close()
	}
	for code, want := range map[string]string{"53100": "make room", "57P01": "start it again", "57P03": "start it again", "42601": ""} {
		if got := remedy(fmt.Errorf("read: %w", &pgconn.PgError{Code: code})); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}

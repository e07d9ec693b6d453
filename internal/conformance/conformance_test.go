// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/markers"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/redis/redistest"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	waittest.Main(m)
}

var update = flag.Bool("update", false, "write the tables of docs/conformance.md anew")

// The page that the tables are in.
const page, command = "../../docs/conformance.md", "go test ./internal/conformance -update"

func TestEveryAlgorithmThroughEveryWayIn(t *testing.T) {
	s := &suite{T: t, redis: redistest.Start(t)}
	var table strings.Builder
	table.WriteString("| algorithm |")
	for _, way := range doors {
		fmt.Fprintf(&table, " %s |", way.name)
	}
	table.WriteString(" Doorman |\n|---|" + strings.Repeat("---|", len(doors)+1) + "\n")
	for i := range algorithms {
		if testing.Short() && i%3 != 0 { // a third of all algorithms, by every way in
			s.partial = true
			continue
		}
		a := &algorithms[i]
		fmt.Fprintf(&table, "| `%s` |", a.name)
		for _, way := range doors {
			fmt.Fprintf(&table, " %s |", s.throughDoor(a, way.name, way.open))
		}
		fmt.Fprintf(&table, " %s |\n", s.throughDoorman(a))
	}
	if !t.Failed() && !s.partial {
		compare(t, "laws", table.String())
	}
}

// suite runs the laws.
type suite struct {
	*testing.T
	redis   *redistest.Server
	partial bool // -run leaves some out
}

// law runs check in a bubble for each text of rules, and reports whether all hold.
func (s *suite) law(a *algorithm, way, law string, fields []string, check func(t *testing.T, fields string)) (keeps bool) {
	keeps = true
	for _, f := range fields {
		ran := false
		keeps = s.Run(strings.Join([]string{a.name, way, law, f}, "/"), func(t *testing.T) {
			ran = true
			check(t, f)
		}) && keeps
		s.partial = s.partial || !ran
	}
	return keeps
}

// cluster starts a cluster under an algorithm, in the bubble of t.
func (s *suite) cluster(t *testing.T, a *algorithm, interval time.Duration, fields string) *cluster {
	server := s.redis
	if a.name != "redis" {
		server = nil
	}
	return startCluster(t, server, rulesOf(a.name, interval, fields))
}

// throughDoor holds an algorithm to all laws that are about the door, and returns those
// that it keeps.
func (s *suite) throughDoor(a *algorithm, name string, open func(*cluster) *door) string {
	if a.alone && name == "Decider" {
		return "–"
	}
	var kept []string
	for _, l := range laws {
		if l.bounds && math.IsInf(a.over(0), 1) {
			continue
		}
		about := false
		hold := func(t *testing.T, fields string, interval time.Duration, warm bool) {
			synctest.Test(t, func(t *testing.T) {
				c := s.cluster(t, a, interval, fields)
				d := open(c)
				if about = l.about(d); !about {
					return
				}
				if warm {
					c.warm(d)
				}
				l.check(t, a, c, d)
			})
		}
		if s.law(a, name, l.name, l.rules, func(t *testing.T, fields string) {
			if l.cold {
				hold(t, fields, time.Hour, false)
			}
			if !l.cold || !a.remote {
				hold(t, fields, interval, true)
			}
		}) && about {
			kept = append(kept, l.name)
		}
	}
	return strings.Join(kept, ", ")
}

// throughDoorman is throughDoor for clients that have leases.
func (s *suite) throughDoorman(a *algorithm) string {
	var kept []string
	for _, l := range []struct {
		name  string
		check func(*testing.T, *algorithm, *cluster)
	}{{"leases", leasesKeepTheLimit}, {"refund", releasesAreExactAndOnce}} {
		if s.law(a, "Doorman", l.name, []string{""}, func(t *testing.T, fields string) {
			synctest.Test(t, func(t *testing.T) { l.check(t, a, s.cluster(t, a, interval, fields)) })
		}) {
			kept = append(kept, l.name)
		}
	}
	if !a.leases {
		return "no leases"
	}
	return strings.Join(kept, ", ")
}

func TestTheBoundsOnThePageAreThoseOfTheSuite(t *testing.T) {
	var table strings.Builder
	table.WriteString("| algorithm | *over* | a charge is owed by |\n|---|---|---|\n")
	for _, a := range algorithms {
		by := "the key's bucket"
		if a.parts {
			by = "the part of the host that charges"
		}
		if a.ratio {
			by = "nobody; it counts as load"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", a.name, a.why, by)
	}
	compare(t, "bounds", table.String())
}

// compare compares a table with the one on the page, or writes it there.
func compare(t *testing.T, name, table string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		replaced, err := markers.Replace(string(text), command, name, table)
		if err == nil {
			err = os.WriteFile(page, []byte(replaced), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown, err := markers.Find(string(text), command, name); err != nil || shown != table {
		t.Errorf("%s: the table of %s is not what the suite finds (%v): run %s", page, name, err, command)
	}
}

// SPDX-License-Identifier: Apache-2.0

package sourcetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// placeEnv makes a test's program a writer, at the place that it names.
const placeEnv = "HEADGATE_SOURCETEST_PLACE"

// MaybeWrite makes this process the writer that Crash kills, if Crash has started it. Else
// it returns. Call it first in TestMain.
func MaybeWrite(open Open) {
	place := os.Getenv(placeEnv)
	if place == "" {
		return
	}
	s := open(place)
	newest, err := s.Newest(context.Background())
	for first := true; err == nil || errors.Is(err, history.ErrEmpty); first = false {
		newest, err = s.Append(context.Background(), numbered(newest.Number+1))
		if conflict := (*history.Conflict)(nil); first && errors.As(err, &conflict) {
			// The server may just have stored the last change of the writer that was killed.
			newest, err = s.Newest(context.Background())
		} else if err == nil {
			_, err = fmt.Println(newest.Number)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// numbered is the change that makes version n. Its text is long enough that writing it takes
// some time.
func numbered(n int64) history.Change {
	return history.Change{
		Base: n - 1, Text: limits(int(n)) + strings.Repeat(fmt.Sprintf("# filler of version %d\n", n), int(n%1000)+1),
		Author: "a writer that is killed", Message: fmt.Sprintf("change %d", n),
	}
}

// Crash starts a process that makes changes at place and kills it in the middle, so many
// times. After each, the store opens, and holds what was acknowledged and at most the one
// change under way, whole. The test's TestMain calls MaybeWrite.
func Crash(t *testing.T, open Open, place string, times int) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var stored int64 // the newest version, checked
	underWay := 0
	for range times {
		acknowledged := writeAndKill(t, place, stored, 1+random.IntN(8), time.Duration(random.IntN(6000))*time.Microsecond)
		s := open(place)
		list, err := s.List(t.Context(), 0, int(acknowledged)+2) // once: a server may store the change under way at any time
		if err != nil || len(list) == 0 {
			t.Fatalf("the history has %d versions: %v", len(list), err)
		}
		newest := list[0]
		if newest.Number < acknowledged || newest.Number > acknowledged+1 {
			t.Fatalf("the newest version is %d, and %d was acknowledged last", newest.Number, acknowledged)
		}
		if newest.Number > acknowledged {
			underWay++
		}
		for stored < newest.Number {
			stored++
			want := numbered(stored)
			if v, err := s.Get(t.Context(), stored); err != nil || v.Text != want.Text || v.Message != want.Message {
				t.Fatalf("version %d is not what was written: %d bytes of %d, %q, %v", stored, len(v.Text), len(want.Text), v.Message, err)
			}
		}
		if len(list) != int(stored) {
			t.Fatalf("the history has %d versions of %d", len(list), stored)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed %d times: %d versions, of which %d were stored and not acknowledged", times, stored, underWay)
}

// writeAndKill runs a writer until it has acknowledged some changes, and then for a little
// longer. It returns the last number that was acknowledged.
func writeAndKill(t *testing.T, place string, stored int64, some int, longer time.Duration) (acknowledged int64) {
	t.Helper()
	writer := exec.CommandContext(t.Context(), os.Args[0])
	writer.Env = append(os.Environ(), placeEnv+"="+place)
	var problems strings.Builder
	writer.Stderr = &problems
	out, err := writer.StdoutPipe()
	if err == nil {
		err = writer.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	acknowledged = stored
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if acknowledged, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == some {
			time.AfterFunc(longer, func() { _ = writer.Process.Kill() })
		}
	}
	_ = writer.Wait() // it was killed
	if problems.Len() > 0 {
		t.Fatalf("the writer ends by itself: %s", problems.String())
	}
	return acknowledged
}

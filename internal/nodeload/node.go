// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/nodeload/rusage"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop/static"
)

// setup is what the node under test is told first.
type setup struct {
	Config Config
	Peers  []string // addresses
}

// hello is what it answers.
type hello struct {
	Address string
}

// The questions that it is asked then, a line each. The answer to each is a
// reading.
const (
	use   = "use"   // the keys, from now on
	begin = "begin" // measuring
	end   = "end"
)

// reading is what the node under test has taken until now.
type reading struct {
	At          time.Duration // since it started
	CPU         time.Duration
	RSS, MaxRSS int64
	Heap        uint64 // in use or not yet collected
	Decisions   int64
	Refused     int64   // of these
	Waits       []int64 // of decisions: counts of a histogram
	GCs         uint32
	Pauses      time.Duration   // stop-the-world, all of them
	Recent      []time.Duration // the last 256 at most, newest first
	Live        int             // keys, when measuring ends
	Granted     int             // of these
}

// Serve is the node under test. It reads what to be and when to tell what it
// took from in, writes its answers to out, and ends with in.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return errors.Join(errors.New("no setup was read"), lines.Err())
	}
	var s setup
	if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	node, err := s.start(ctx, listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	stop := func() error { return node.Stop(context.WithoutCancel(ctx)) }
	if err := answer.Encode(hello{address}); err != nil {
		return errors.Join(err, stop())
	}
	t := newTraffic(node.Group(), workload.Keys(s.Config.Keys), 1)
	var using sync.WaitGroup
	err = s.answer(lines, answer, t, func() {
		using.Go(func() { t.run(ctx, s.Config.load(s.Config.Rate, callersOfNode)) })
	})
	cancel()
	using.Wait()
	return errors.Join(err, stop())
}

func (s setup) start(ctx context.Context, listener net.Listener) (*headgate.Node, error) {
	snapshot, err := workload.Snapshot(s.Config.Keys, s.Config.Interval, s.Config.Algorithm)
	if err != nil {
		return nil, err
	}
	hosts, err := static.New(workload.Members(append([]string{listener.Addr().String()}, s.Peers...))...)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := headgate.New(headgate.Config{Address: listener.Addr().String()}, memory.New(snapshot), hosts,
		headgate.WithListen(listener), headgate.WithLogger(log))
	if err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

// answer answers questions until there are no more.
func (s setup) answer(questions *bufio.Scanner, answer *json.Encoder, t *traffic, begun func()) error {
	began := time.Now()
	p := profiles{dir: s.Config.Profiles}
	defer func() { _ = p.stop() }() // the error that counts is that of write
	for questions.Scan() {
		asked := questions.Text()
		r, err := read(began)
		if err != nil {
			return err
		}
		r.Decisions, r.Refused, r.Waits = t.decided.Load(), t.refused.Load(), t.waits.read()
		switch asked {
		case use:
			begun()
		case begin:
			err = p.start()
		case end:
			err = p.write()
			r.count(t.limiters, t.keys)
		default:
			err = fmt.Errorf("%q is no question", asked)
		}
		if err := errors.Join(err, answer.Encode(r)); err != nil {
			return err
		}
	}
	return questions.Err()
}

func read(began time.Time) (reading, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := reading{At: time.Since(began), GCs: m.NumGC, Pauses: time.Duration(m.PauseTotalNs), Heap: m.HeapAlloc}
	for i := range min(m.NumGC, uint32(len(m.PauseNs))) {
		r.Recent = append(r.Recent, time.Duration(m.PauseNs[(m.NumGC-1-i)%uint32(len(m.PauseNs))]))
	}
	var errs [2]error
	r.CPU, errs[0] = rusage.CPUTime()
	r.RSS, r.MaxRSS, errs[1] = rusage.Resident()
	return r, errors.Join(errs[:]...)
}

// count counts the keys.
func (r *reading) count(group *limiter.Group, keys []string) {
	for _, key := range keys {
		s, live := group.Inspect(key)
		if live {
			r.Live++
		}
		if len(s.Shares) == 1 && !s.Shares[0].Fallback {
			r.Granted++
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// target is where the load balancer sends a part of the traffic.
type target struct {
	host   int
	url    string
	weight float64 // relative to the other targets'
}

// load sends requests at a steady pace, whatever becomes of them: an open
// loop. When the machine cannot keep up, requests are left out, not sent
// later in a heap; what was sent is counted.
type load struct {
	perSecond float64
	client    *http.Client
	queue     chan target

	targets atomic.Pointer[[]target]
	sent    []atomic.Int64 // per host
	failed  atomic.Int64   // got no answer
	ok      atomic.Int64   // got status 200
	busy    atomic.Int64   // left out because all workers were busy
	late    atomic.Int64   // left out because this process did not run
	stop    context.CancelFunc
	loops   sync.WaitGroup
}

const (
	// workers bounds the requests under way.
	workers = 48
	// pace is how often due requests are sent.
	pace = 2 * time.Millisecond
	// catchUp bounds how much of a delay of this process is made up for.
	catchUp = 100 * time.Millisecond
)

// startLoad begins to send to targets.
func startLoad(ctx context.Context, config Config, targets []target) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{
		perSecond: float64(config.Offered),
		client: &http.Client{
			Timeout: 10 * time.Second,
			Transport: &http.Transport{
				MaxIdleConnsPerHost: workers,
				DisableCompression:  true,
			},
		},
		queue: make(chan target, workers),
		sent:  make([]atomic.Int64, config.Hosts),
		stop:  cancel,
	}
	l.aim(targets)
	for range workers {
		l.loops.Go(func() {
			for t := range l.queue {
				l.send(ctx, t)
			}
		})
	}
	l.loops.Go(func() {
		defer close(l.queue)
		l.run(ctx)
	})
	return l
}

// aim changes where requests go, from the next one on.
func (l *load) aim(targets []target) { l.targets.Store(&targets) }

// close returns when no request is under way any more.
func (l *load) close() {
	l.stop()
	l.loops.Wait()
	l.client.CloseIdleConnections()
}

// run queues each request when it is due.
func (l *load) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	last, owed := time.Now(), 0.0
	var turns turns
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		passed := now.Sub(last)
		last = now
		owed += min(passed, catchUp).Seconds() * l.perSecond
		l.late.Add(int64(max(passed-catchUp, 0).Seconds() * l.perSecond))
		targets := *l.targets.Load()
		for ; owed >= 1; owed-- {
			select {
			case l.queue <- targets[turns.next(targets)]:
			case <-ctx.Done():
				return
			default:
				l.busy.Add(1)
			}
		}
	}
}

// send sends one request. Connections are kept, as answers are read whole.
func (l *load) send(ctx context.Context, t target) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		l.failed.Add(1)
		return
	}
	l.sent[t.host].Add(1)
	response, err := l.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	switch {
	case err != nil && ctx.Err() == nil:
		l.failed.Add(1)
	case err == nil && response.StatusCode == http.StatusOK:
		l.ok.Add(1)
	}
}

// turns takes turns between targets by their weights, as evenly as it goes:
// each gains its weight in credit, and the richest pays for all.
type turns struct {
	credit []float64
}

// next is the index of the target whose turn it is.
func (t *turns) next(targets []target) int {
	if len(t.credit) != len(targets) {
		t.credit = make([]float64, len(targets))
	}
	best, all := 0, 0.0
	for i := range targets {
		t.credit[i] += targets[i].weight
		all += targets[i].weight
		if t.credit[i] > t.credit[best] {
			best = i
		}
	}
	t.credit[best] -= all
	return best
}

// aimAt is the targets when hot gets 90% of the traffic and the others the
// rest, but for down, which the load balancer leaves out (-1: none).
func aimAt(hosts []*host, hot, down int) []target {
	var targets []target
	for i, h := range hosts {
		weight := (1 - hotPart) / float64(len(hosts)-1)
		if i == hot {
			weight = hotPart
		}
		if i != down {
			targets = append(targets, target{i, h.url(), weight})
		}
	}
	return targets
}

// hotPart of the traffic hits one host.
const hotPart = 0.9

// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

var (
	honestKeys  = []string{"honest:average", "honest:pool", "honest:weighed", "honest:lease", "honest:exact"}
	honestNames = []string{"honest-1", "honest-2", "honest-3"}
	honestWants = []float64{900, 450, 150} // events/s of 1000/s
)

// honestAlgorithms are those under which honest hosts report, in the order of honestKeys.
var honestAlgorithms = []string{"request-weighted", "elastic", "favour"}

const (
	hostileInterval = 500 * time.Millisecond
	honestEvery     = hostileInterval / 2
)

// honest is hosts that report what they do.
type honest struct {
	h      *hostile
	client *rpcyarpc.Client
	peer   rpc.Decider
	hosts  []*honestHost
}

type honestHost struct {
	name    string
	wants   float64
	last    time.Time
	weights [3]float64 // under each of honestAlgorithms
	said    float64    // the demand of its last report; what follows an earlier one soon says less
	part    float64    // of what all had said when it was answered
	leased  float64
	taken   bool
}

func (h *hostile) newHonest() *honest {
	g := &honest{h: h}
	g.client, g.peer = h.dial()
	for i, name := range honestNames {
		g.hosts = append(g.hosts, &honestHost{name: name, wants: honestWants[i], last: time.Now().Add(-honestEvery)})
	}
	return g
}

func (g *honest) close() {
	if err := g.client.Close(); err != nil {
		g.h.Error(err)
	}
}

// goOn has all report, until the returned function is called.
func (g *honest) goOn() (stop func()) {
	ctx, cancel := context.WithCancel(g.h.Context())
	var reports sync.WaitGroup
	reports.Go(func() {
		every := time.NewTicker(honestEvery)
		defer every.Stop()
		for ctx.Err() == nil {
			g.report()
			<-every.C
		}
	})
	return func() {
		cancel()
		reports.Wait()
	}
}

// right has all report for two intervals, and then fails unless all have what is
// theirs. Where the machine stood still meanwhile it begins again.
func (g *honest) right(when string) {
	// The parts of honest-1, honest-2 and honest-3.
	weights := [3]float64{0.6, 0.3, 0.1}
	leases := [3]float64{425, 425, 150}
	off := make([]float64, len(g.hosts)) // by how much a weight was wrong when this began
	every := time.NewTicker(honestEvery)
	defer every.Stop()
	var began time.Time
	for last := time.Now(); ; <-every.C {
		now := time.Now()
		late := now.Sub(last)
		last = now
		g.report()
		if took := time.Since(now); late > honestEvery*3/2 || took > honestEvery || began.IsZero() {
			g.h.Logf("%s: %v since the last report, which took %v", when, late, took)
			began = now
			for i, host := range g.hosts {
				off[i] = 0
				for _, w := range host.weights {
					off[i] = max(off[i], math.Abs(w-weights[i]))
				}
			}
		}
		if now.Sub(began) >= 2*hostileInterval {
			break
		}
	}
	for i, host := range g.hosts {
		for of, name := range honestAlgorithms {
			want := weights[i]
			if of == 0 { // averages go by what is reported
				want = host.part
			}
			// A moving average keeps a quarter of what was before two intervals.
			if w := host.weights[of]; !(math.Abs(w-want) < 0.05+off[i]/4) {
				g.h.Errorf("%s: %s has weight %.3f under %s, not %.3f", when, host.name, w, name, want)
			}
		}
		if !(math.Abs(host.leased-leases[i]) < 45) {
			g.h.Errorf("%s: %s leases %.0f/s, not %.0f/s", when, host.name, host.leased, leases[i])
		}
		if !host.taken {
			g.h.Errorf("%s: %s gets no token of the exact key", when, host.name)
		}
	}
}

// report has all hosts report all keys once.
func (g *honest) report() {
	for _, host := range g.hosts {
		elapsed := max(time.Since(host.last), time.Millisecond)
		host.last = host.last.Add(elapsed)
		host.said = host.wants * min(elapsed, hostileInterval).Seconds()
		all := 0.0
		for _, other := range g.hosts {
			all += other.said
		}
		host.part = host.said / all
		for i, name := range honestAlgorithms {
			g.use(host, i, name, elapsed)
		}
		g.claim(host)
		g.take(host)
	}
}

// use reports one key's usage.
func (g *honest) use(host *honestHost, i int, algorithm string, elapsed time.Duration) {
	all := uint64(host.wants * elapsed.Seconds())
	allowed := min(all, uint64(host.weights[i]*1000*elapsed.Seconds()))
	key := honestKeys[i]
	half := func(v float64) []byte {
		return binary.LittleEndian.AppendUint16(nil, uint16(math.Float32bits(float32(v))>>16))
	}
	var grants headgatepb.Grants
	g.ask(host, &headgatepb.Usage{
		Algorithm: algorithm, ElapsedMs: uint32(elapsed.Milliseconds()), Keys: []byte(key), KeyLengths: []uint32{uint32(len(key))},
		Allowed: []uint64{allowed}, Rejected: []uint64{all - allowed}, Weights: half(host.weights[i]), Wants: half(host.wants),
	}, &grants)
	if grants.LeaseMs == 0 && len(grants.LeaseMsEach) == 0 {
		return
	}
	host.weights[i] = 0
	if len(grants.Weights) == 1 {
		host.weights[i] = float64(grants.Weights[0])
	}
}

// claim claims what the host wants.
func (g *honest) claim(host *honestHost) {
	var leases headgatepb.Leases
	g.ask(host, &headgatepb.Claims{Rows: []*headgatepb.Claim{{
		Key: []byte(honestKeys[3]), Host: []byte(host.name), Has: host.leased,
		Bands: []*headgatepb.Band{{Clients: 1, Wants: host.wants}},
	}}}, &leases)
	if len(leases.GetRows()) == 1 {
		host.leased = leases.Rows[0].GetAmount()
	}
}

// take takes a token.
func (g *honest) take(host *honestHost) {
	var taken headgatepb.Taken
	g.ask(host, &headgatepb.Takes{Keys: []byte(honestKeys[4]), KeyLengths: []uint32{uint32(len(honestKeys[4]))}}, &taken)
	host.taken = len(taken.GetAnswers()) == 1 && taken.Answers[0]&1 == 1
}

// ask asks the owner. Honest hosts are answered, whatever others send.
func (g *honest) ask(host *honestHost, request, answer proto.Message) {
	payload, err := anypb.New(request)
	if err == nil {
		ctx, cancel := context.WithTimeout(g.h.Context(), 30*time.Second)
		payload, err = g.peer.Update(ctx, host.name, payload)
		cancel()
	}
	if err == nil {
		err = payload.UnmarshalTo(answer)
	}
	if err != nil {
		g.h.Errorf("%s is not answered: %v", host.name, err)
	}
}

// firstCome is a payload of the service's own: the first host that names a key
// has it. It keeps some keys, and forgets them all in each interval.
func firstCome() headgate.Payload {
	return headgate.Payload{Codec: noCodec{}, TypeURL: rpc.TypeURL(&structpb.Struct{}), Owner: &firstComeOwner{holders: make(map[string]string)}}
}

type firstComeOwner struct {
	aggregator.NoLifecycle

	mu      sync.Mutex // protects following field
	holders map[string]string
}

func (o *firstComeOwner) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	var request structpb.Struct
	if err := payload.UnmarshalTo(&request); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrPayload, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()

	answer := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for key := range request.GetFields() {
		if _, held := o.holders[key]; !held && len(o.holders) < ownedKeys && len(key)+len(host) < 2048 {
			o.holders[key] = host
		}
		answer.Fields[key] = structpb.NewStringValue(o.holders[key])
	}
	return anypb.New(answer)
}

func (o *firstComeOwner) Sweep(time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()

	clear(o.holders)
}

// noCodec: no host of this test limits under first-come, but its edge is asked to.
type noCodec struct{}

var errNoCodec = fmt.Errorf("%w: no host limits under first-come", rpc.ErrPayload)

func (noCodec) EncodeReport(*usage.Report) (*anypb.Any, error) { return nil, errNoCodec }

func (noCodec) DecodeGrants(*anypb.Any, *usage.Report) (*usage.Grants, error) { return nil, errNoCodec }

// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// Pair is two stages behind a mode. Use NewPair. It is safe for concurrent use.
// A call that runs while the mode changes uses one mode throughout.
type Pair struct {
	phase
	sides      [2]stage.Stage // old and new
	remote     [2]atomic.Bool // Remote of each stage's last Level
	background func(func()) bool

	// missed is, for each side that is remote, what this host took recently without
	// asking it; nil for a side that never was remote.
	missed [2]atomic.Pointer[recent]

	// refused is, for each side that is remote, how many tokens the other side allowed and this
	// one, as the shadow, did not.
	refused [2]atomic.Int64

	switching sync.Mutex                    // serialises SetMode
	answered  role                          // the side that answers, or did before the mode disabled; switching protects it
	switched  atomic.Pointer[chan struct{}] // closed once the mode has changed
}

var _ stage.Migration = (*Pair)(nil)

// NewPair returns a Pair that migrates from old to new and starts in mode. A
// mode that does not exist counts as disabled. The Pair asks a remote shadow in
// the background: background runs a function in any goroutine, or returns false
// if too much runs already. If background is nil, no remote shadow is asked. A stage that is
// nil refuses everything.
func NewPair(now stage.Instant, old, new stage.Stage, mode dynamicconfig.Mode, background func(func()) bool) *Pair {
	if background == nil {
		background = func(func()) bool { return false }
	}
	p := &Pair{sides: [2]stage.Stage{old, new}, background: background}
	for i, s := range p.sides {
		if s == nil {
			p.sides[i] = limiter.FromStage(nil).Stage()
		}
	}
	p.observe(now)
	p.mode.Store(uint32(existing(mode)))
	p.answered = roles[p.Mode()].primary
	next := make(chan struct{})
	p.switched.Store(&next)
	return p
}

// Take implements stage.Stage. The primary answers. The shadow counts as allowing the event
// if its wait is no longer than the primary's. Charges go to both stages and are not
// counted. If the primary refuses, the shadow keeps the tokens that it took: Counts then
// show how much it would allow by itself.
func (p *Pair) Take(ctx context.Context, r stage.Request) (v stage.Verdict, taken stage.Receipt) {
	in := roles[p.Mode()]
	if in.primary == none {
		v.Left = math.Inf(1)
		return v, taken
	}
	v, taken = p.sides[in.primary].Take(ctx, r)
	ok := v.Reason <= stage.Bypassed // v.OK() would copy v, at half the cost of a decision
	var missed *recent
	if in.shadow == none && v.Reason == stage.Granted {
		if missed = p.missed[in.primary^1].Load(); missed != nil { // the other side is remote, and was not asked
			missed.add(r.Now, r.N)
		}
	}
	var beside stage.Receipt
	var shadow stage.Stage
	if in.shadow != none && v.Reason != stage.Canceled { // a caller that left was not refused
		if ok {
			r.Longest = max(v.Wait, v.Wait+v.Wait/100) // 1% for rounding; the sum may overflow
		}
		if !ok && r.Kind == stage.Take {
			r.Kind = stage.Final
		}
		shadow = p.sides[in.shadow]
		reason := stage.Canceled
		if r.Kind >= stage.Charge || !p.remote[in.shadow].Load() {
			var answer stage.Verdict
			answer, beside = shadow.Take(stage.NoWait(), r)
			reason = answer.Reason
		}
		switch {
		case reason == stage.Canceled: // the shadow is remote
			return v, p.askLater(in.shadow, r, v.Reason, &record{primary: p.sides[in.primary], taken: taken, shadow: shadow, at: r.Now})
		case r.Kind < stage.Charge:
			p.compare(in.shadow, ok, reason <= stage.Bypassed, r.N)
		}
	}
	if r.Kind != stage.Take || empty(taken, beside) { // there is nothing to settle
		return v, taken
	}
	made := &record{primary: p.sides[in.primary], taken: taken, shadow: shadow, missed: missed, at: r.Now}
	made.answered(beside)
	return v, stage.Receipt{N: taken.N, Rest: made}
}

// Allow implements stage.Stage.
func (p *Pair) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	in := roles[p.Mode()]
	if in.primary == none {
		return stage.Granted
	}
	reason := p.sides[in.primary].Allow(ctx, now)
	if in.shadow == none {
		if missed := p.missed[in.primary^1].Load(); missed != nil && reason == stage.Granted {
			missed.add(now, 1)
		}
		return reason
	}
	if reason == stage.Canceled {
		return reason
	}
	beside := stage.Canceled
	if !p.remote[in.shadow].Load() {
		beside = p.sides[in.shadow].Allow(stage.NoWait(), now)
	}
	if beside == stage.Canceled {
		p.askLater(in.shadow, stage.Request{Now: now, N: 1, Kind: stage.Final}, reason, &record{shadow: p.sides[in.shadow]})
		return reason
	}
	p.compare(in.shadow, reason.OK(), beside.OK(), 1)
	return reason
}

// askLater asks a remote shadow in the background, after the primary's answer. It
// returns the Pair's Receipt.
func (p *Pair) askLater(shadow role, r stage.Request, answer stage.Reason, made *record) stage.Receipt {
	if !p.remote[shadow].Load() { // the shadow has just become remote
		p.observe(r.Now)
	}
	asked := p.background(func() {
		v, beside := made.shadow.Take(context.Background(), r)
		p.remote[shadow].Store(made.shadow.Level(r.Now).Remote)
		p.compare(shadow, answer <= stage.Bypassed, v.OK(), r.N)
		if answer == stage.Granted && !v.OK() && p.refused[shadow].Load() < maxCost { // else the sum might overflow
			p.refused[shadow].Add(min(r.N, maxCost))
		}
		made.answered(beside)
	})
	if !asked {
		p.counts[skipped].Add(min(r.N, maxCost)) // the shadow took nothing, so it is never settled
		if missed := p.missed[shadow].Load(); missed != nil && answer == stage.Granted {
			missed.add(r.Now, r.N)
			made.missed = missed
		}
	}
	if r.Kind == stage.Final {
		return stage.Receipt{}
	}
	return stage.Receipt{N: made.taken.N, Rest: made}
}

// Settle implements stage.Stage. It settles both stages. A remote shadow is
// settled after it has answered.
func (p *Pair) Settle(now stage.Instant, r stage.Receipt, actual int64) {
	if made, ok := r.Rest.(*record); ok {
		made.settle(now, actual)
	}
}

// Cap implements stage.Stage. It caps both stages in every mode.
func (p *Pair) Cap(now stage.Instant, tokens float64) {
	p.sides[0].Cap(now, tokens)
	p.sides[1].Cap(now, tokens)
}

// Level implements stage.Stage. It returns the primary's level.
func (p *Pair) Level(now stage.Instant) stage.Level {
	if in := roles[p.Mode()]; in.primary != none {
		return p.sides[in.primary].Level(now)
	}
	return unlimited
}

// Open implements stage.Stage. The mode disabled is open, and so is a primary that is.
func (p *Pair) Open() (open bool, changed []<-chan struct{}) {
	changed = []<-chan struct{}{*p.switched.Load()} // first: a mode that changes meanwhile closes it
	in := roles[p.Mode()]
	if in.primary == none {
		return true, changed
	}
	open, more := p.sides[in.primary].Open()
	return open, append(changed, more...)
}

// SetMode changes the mode. The change gives callers no second burst. A local stage that
// begins to answer gets no more tokens than the stage that answered before had. This holds
// also if the mode was disabled in between.
//
// The Pair charges a remote stage that it asks from now on, and did not ask before, with
//   - the tokens that this host took from the other stage during the last window; the window
//     is as long as the remote bucket takes to fill;
//   - the tokens for which callers still wait.
//
// If the remote stage was the shadow and begins to answer, the Pair charges it with what it
// refused as the shadow, until it lacks as many tokens as the stage that answered before.
//
// If a stage became remote after NewPair, the Pair did not count what was taken before. Then it
// counts the tokens that the other stage lacked at that time.
//
// Tokens that callers give back later go to the stages that gave them. After a change from
// `old-shadow-new`, both stages get them. After a change from `old` to `new`, only the old
// stage gets them, and a remote stage stays charged.
//
// Calls that run during the change may still take their tokens from the stage that answered
// before.
func (p *Pair) SetMode(now stage.Instant, mode dynamicconfig.Mode) {
	p.switching.Lock()
	defer p.switching.Unlock()

	mode = existing(mode)
	before, after := p.answered, roles[mode]
	p.observe(now)
	take := func() {
		level := unlimited
		if before != none {
			level = p.sides[before].Level(now)
		}
		p.chargeMissed(now, after.primary, level)
		p.chargeMissed(now, after.shadow, level)
		if before != none && after.primary != none && before != after.primary {
			p.chargeRefused(now, after.primary, level) // first, because a remote stage may show what it is capped to
			p.sides[after.primary].Cap(now, level.Tokens)
		}
	}
	take()
	p.mode.Store(uint32(mode))
	take() // again, because calls took tokens meanwhile
	if after.primary != none {
		p.answered = after.primary
	}
	next := make(chan struct{})
	close(*p.switched.Swap(&next))
}

// Reset forgets the tokens that a remote stage would be charged with. Call it when the buckets
// of both stages are filled.
func (p *Pair) Reset() {
	p.switching.Lock()
	defer p.switching.Unlock()

	for i := range p.missed {
		p.refused[i].Store(0)
		if missed := p.missed[i].Load(); missed != nil {
			p.missed[i].Store(newRecent(missed.span))
		}
	}
}

// chargeMissed charges a remote side with the tokens that it missed during the window. before is
// the level of the stage that answered before. If that stage lacks more tokens, because callers
// wait for them, chargeMissed also charges what the side missed earlier.
func (p *Pair) chargeMissed(now stage.Instant, side role, before stage.Level) {
	if side == none || !p.remote[side].Load() {
		return
	}
	if missed := p.missed[side].Load(); missed != nil {
		n := max(missed.sum(now), min(missed.total.Load(), p.lacksLess(now, side, before)))
		if n > 0 && p.missed[side].CompareAndSwap(missed, newRecent(missed.span)) {
			p.sides[side].Take(stage.NoWait(), stage.Request{Now: now, N: n, Kind: stage.Before})
		}
	}
}

// chargeRefused charges a remote side that begins to answer with what it refused as the shadow.
// before is the level of the stage that answered until now. What the side refused long ago
// counts too, because callers may have waited for those tokens until a moment ago.
func (p *Pair) chargeRefused(now stage.Instant, side role, before stage.Level) {
	if !p.remote[side].Load() {
		return
	}
	if n := min(p.refused[side].Load(), p.lacksLess(now, side, before)); n > 0 {
		p.refused[side].Store(0)
		p.sides[side].Take(stage.NoWait(), stage.Request{Now: now, N: n, Kind: stage.Before})
	}
}

// lacksLess is how many tokens must be taken from side until it lacks as many as a local stage
// whose level is of; 0 if that stage is remote too.
func (p *Pair) lacksLess(now stage.Instant, side role, of stage.Level) int64 {
	if of.Remote {
		return 0
	}
	level := p.sides[side].Level(now)
	level.Tokens += level.Above
	return max(of.Missing()-level.Missing(), 0)
}

// observe reads which stages are remote, and gives each of them a record of the tokens that
// it misses. The record's window is as long as the remote bucket takes to fill. If that time
// has changed, a new record begins with the tokens of the last one. The first
// record of a stage that is not asked begins with the tokens that the primary lacks.
func (p *Pair) observe(now stage.Instant) {
	in := roles[p.Mode()]
	for i, s := range p.sides {
		level, last := s.Level(now), p.missed[i].Load()
		p.remote[i].Store(level.Remote)
		if !level.Remote || last != nil && last.span == spanFor(level) {
			continue
		}
		next := newRecent(spanFor(level))
		if last != nil {
			next.add(now, last.sum(now))
			next.total.Store(last.total.Load())
		} else if in.shadow == none && in.primary == role(i)^1 {
			next.add(now, p.sides[in.primary].Level(now).Missing())
		}
		p.missed[i].CompareAndSwap(last, next)
	}
}

// record keeps the receipts of both stages for one request until the caller
// settles it. The Pair's Receipt points to it. Without a table of records, the
// garbage collector frees those that are never settled.
type record struct {
	primary, shadow stage.Stage // shadow is nil if none was asked
	taken           stage.Receipt
	known           atomic.Int32  // plus 1 once beside is written, plus 1 once at and actual are
	beside          stage.Receipt // of the shadow
	missed          *recent       // has what a side that is remote was not asked; nil if there is none
	at              stage.Instant // when the tokens were taken; once known says so, when the caller settled
	actual          int64
}

// answered stores the shadow's receipt.
func (r *record) answered(beside stage.Receipt) {
	r.beside = beside
	r.settleShadow()
}

func (r *record) settle(now stage.Instant, actual int64) {
	r.primary.Settle(now, r.taken, actual)
	if r.missed != nil && r.taken.N > 0 {
		r.missed.correct(r.at, now, max(actual, 0)-r.taken.N)
	}
	r.at, r.actual = now, actual
	r.settleShadow()
}

// settleShadow settles the shadow at its second call: then the shadow has
// answered, and the caller has settled.
func (r *record) settleShadow() {
	if r.known.Add(1) == 2 && r.shadow != nil {
		r.shadow.Settle(r.at, r.beside, r.actual)
	}
}

// empty reports whether both receipts are zero. The compiler does not inline
// a == b of Receipts.
func empty(a, b stage.Receipt) bool {
	return a.N|b.N == 0 && a.Rest == nil && b.Rest == nil
}

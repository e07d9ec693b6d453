// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Takes take tokens from the buckets that the owner of their keys keeps. The
// zero Takes asks for nothing.
type Takes struct {
	// Caller numbers the sender, at random, and Batch counts a caller's messages
	// to one owner. By both, the owner recognizes a message that is delivered
	// twice. A Caller of 0 disables the check.
	Caller, Batch uint64

	// Settled: what the owner remembers of batches before this one is not
	// needed any more. At most Batch.
	Settled uint64

	// Withdrawn are batches without an answer, at most rpc.MaxWithdrawn: they do
	// not count, whether or not the owner has seen them.
	Withdrawn []uint64

	// Rows are served in order; a key may be in many.
	Rows []Take
}

// Take takes tokens from the bucket of one key.
type Take struct {
	// Key is the full key, `group:name`; 1 to rpc.MaxKeyLength bytes.
	Key string

	// Auto: the host asks under the algorithm auto, and not under exact. Both take from the
	// key's one pool.
	Auto bool

	// Measured: the bucket is the one that a migration only measures. See Measured.
	Measured bool

	// Tokens is how many, in [-rpc.MaxTokens, rpc.MaxTokens]. Below 0: to give them
	// back, which is always OK. 0 asks what is left.
	Tokens float64

	// Longest is how long the caller waits for them, at most rpc.MaxWait; below 0:
	// for as long as the rule lets it.
	Longest time.Duration

	// Spent says that the tokens are spent already, whatever the owner says.
	Spent Spent

	// More is how many tokens the host can hold beside these, under auto, in
	// [0, rpc.MaxTokens]: the owner may lend it as many. 0: none, as from a host
	// without a grant. A host with a grant that can hold none says less than 1: an
	// owner that is new to the key learns from it that there was another.
	More float64

	// Wants is how much the host wants of the key by now, in cost/s, in [0,
	// rpc.MaxTokens]. 0: as much as it reported last.
	Wants float64

	// Told is what was left when an owner last answered this caller. By is that
	// owner's number, and Ago how long ago it was. By 0: no owner has answered. A
	// new owner learns from it.
	Told float64
	Ago  time.Duration
	By   uint32

	// Handed says that the sender, By, owned the key and hands it over: it had Told in
	// its bucket, beside what hosts hold, and hosts held Rates of the limit as rates, in
	// [0, 1]. Kept is the burst without all that the sender gave since its bucket was new;
	// in [0, rpc.MaxTokens]; 0: nothing, or the sender does not say.
	Handed bool
	Rates  float64
	Kept   float64

	// Here: the owner's own host asks, without a message.
	Here bool
}

// Spent says what became of the tokens before the owner was asked.
type Spent uint8

const (
	// SpentNot is nothing: they are taken if they are there.
	SpentNot Spent = iota
	// SpentBeyond is that they are spent, and taken into debt if need be, as
	// deep as the owner's rule allows.
	SpentBeyond
	// SpentApart is that they were spent while the owner could not be asked.
	// They are taken into a debt of at most one burst.
	SpentApart
)

// Taken answers Takes: row i is about take i.
type Taken struct {
	// By is the owner's number, at random and not 0, which a process keeps.
	By   uint32
	Rows []Took
}

// Took is what became of one Take.
type Took struct {
	// Decided says that this owner keeps the bucket. If not, nothing was taken,
	// and all else is zero.
	Decided bool

	// OK: the tokens are taken, and may be used after Wait, in [0, rpc.MaxWait].
	OK   bool
	Wait time.Duration

	// Retry is, if not OK, after how long asking again may help, in
	// (0, rpc.MaxWait]; rpc.MaxWait may stand for never.
	Retry time.Duration

	// Left is what is left in the bucket; below 0 in debt, finite.
	Left float64

	// Lent is what the host may use beside the tokens that it took, at most the
	// Take's More. The host reports what it uses, as it does what it was granted.
	Lent float64

	// Short is how many of the Take's tokens were not moved although it is OK:
	// what is spent already is taken only down to a bound, and a full bucket
	// takes nothing in. It has the sign of the tokens.
	Short float64
}

// Moved is how many tokens t moved, which took answers.
func (t *Take) Moved(took *Took) float64 {
	if !took.OK {
		return 0
	}
	if t.Tokens < 0 {
		return min(t.Tokens-min(took.Short, 0), 0)
	}
	return max(t.Tokens-max(took.Short, 0), 0)
}

// Opposite undoes t, which took answers.
func (t *Take) Opposite(took *Took) Take {
	back := Take{Key: t.Key, Auto: t.Auto, Measured: t.Measured, Tokens: -t.Moved(took)}
	if back.Tokens > 0 { // it had given them back
		back.Spent = SpentBeyond
	}
	return back
}

// Check reports what in t is against the contract, naming the first such row,
// or nil. The error is an ErrPayload.
func (t *Takes) Check() error {
	if err := cmp.Or(wire.AtMost("takes", len(t.Rows), rpc.MaxTakes), wire.AtMost("withdrawn batches", len(t.Withdrawn), rpc.MaxWithdrawn)); err != nil {
		return err
	}
	if t.Settled > t.Batch {
		return rpc.Refuse("batch %d settles those before %d; settle what was before", t.Batch, t.Settled)
	}
	for i := range t.Rows {
		if err := t.Rows[i].Check(i); err != nil {
			return err
		}
	}
	return nil
}

// Check reports what in t, which is this row of a message, is against the
// contract, or nil.
func (t *Take) Check(row int) error {
	r := wire.Row{Number: row}
	r.Name("the key", t.Key)
	r.Value("tokens", t.Tokens, -rpc.MaxTokens, rpc.MaxTokens)
	r.Period("the longest wait", max(t.Longest, 0), 0, rpc.MaxWait)
	r.Value("the way in which tokens are spent", float64(t.Spent), 0, float64(SpentApart))
	r.Value("the tokens to lend", t.More, 0, rpc.MaxTokens)
	r.Value("wants", t.Wants, 0, rpc.MaxTokens)
	r.Value("told", t.Told, -wire.Finite, wire.Finite)
	r.Period("told_ms", t.Ago, 0, rpc.MaxElapsed)
	r.Value("the part of the limit that is handed over as rates", t.Rates, 0, 1)
	r.Value("kept", t.Kept, 0, rpc.MaxTokens)
	return r.Err
}

// Check reports what in t is against the contract as an answer to n takes,
// naming the first such row, or nil. The error is an ErrPayload.
func (t *Taken) Check(n int) error {
	if err := wire.Fits("answers", len(t.Rows), n); err != nil {
		return err
	}
	if t.By == 0 {
		return rpc.Refuse("the owner's number is 0; choose another")
	}
	for i := range t.Rows {
		if err := t.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Took) check(row int) error {
	r := wire.Row{Number: row}
	var wait, retry time.Duration // at most
	var short, lent float64
	switch {
	case t.OK:
		wait, short, lent = rpc.MaxWait, rpc.MaxTokens, rpc.MaxTokens
	case t.Decided:
		retry = rpc.MaxWait
	}
	if !t.Decided && *t != (Took{}) {
		r.Fail("%+v, and not decided; then nothing else is said", *t)
	}
	r.Period("the wait", t.Wait, 0, wait)
	r.Period("the time until asking again", t.Retry, min(retry, 1), retry)
	r.Value("the number of tokens that were not moved", t.Short, -short, short)
	r.Value("the number of tokens that are lent", t.Lent, 0, lent)
	r.Value("what is left", t.Left, -wire.Finite, wire.Finite)
	return r.Err
}

// SPDX-License-Identifier: Apache-2.0

// Package fan asks the owners of many keys at once, each within a deadline of
// its own, and collects the answers. An owner that fails costs its own rows
// only. The package knows rows, and no message.
package fan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/rpc"
)

// MaxBytes keeps a call with long keys below the 4 MiB that transports take.
const MaxBytes = 3 << 20

// Part is the rows that go to one owner in one call, in increasing order.
type Part struct {
	Owner string
	Rows  []int
}

// Split groups n rows by the owners of their keys, in the order in which owners
// first appear. Each part has at most most rows, and about 3 MiB, where row i
// takes size(i) bytes.
func Split(n, most int, placement rpc.Placement, key func(i int) string, size func(i int) int) (parts []Part) {
	open := make(map[string]int) // owner to its newest part
	var rows, bytes []int        // of each part
	partOf := make([]int, n)
	for i := range n {
		owner, more := placement.Owner(key(i)), size(i)
		part, ok := open[owner]
		if !ok || owner != "" && (rows[part] == most || bytes[part]+more > MaxBytes) {
			part = len(parts)
			open[owner] = part
			parts, rows, bytes = append(parts, Part{Owner: owner}), append(rows, 0), append(bytes, 0)
		}
		partOf[i] = part
		rows[part]++
		bytes[part] += more
	}
	order, from := make([]int, n), 0
	for i, count := range rows {
		parts[i].Rows = order[from : from : from+count]
		from += count
	}
	for i, part := range partOf {
		parts[part].Rows = append(parts[part].Rows, i)
	}
	return parts
}

// maxCalls bounds the calls of one Each at the same time. If there are more, a call that times out
// holds up another.
const maxCalls = 256

// Each calls ask for 0 to n-1, at most 256 of them at the same time, and done
// with each result as soon as it is there. Done runs on the caller's goroutine.
// Each returns after the last result, and leaves no goroutine behind. A call that ends
// its goroutine is an error; a single call is on the caller's goroutine.
func Each[A any](n int, ask func(i int) (A, error), done func(i int, answer A, err error)) {
	if n == 1 {
		answer, err := ask(0)
		done(0, answer, err)
		return
	}
	type result struct {
		i      int
		answer A
		err    error
	}
	// Both have room for all, so that no call waits for done.
	todo, results := make(chan int, n), make(chan result, n)
	for i := range n {
		todo <- i
	}
	close(todo)
	var work func()
	one := func(i int) {
		r, returned := result{i: i, err: errEnds}, false
		defer func() {
			if !returned {
				go work() // for the rest
			}
			results <- r
		}()
		r.answer, r.err = ask(i)
		returned = true
	}
	work = func() {
		for i := range todo {
			one(i)
		}
	}
	for range min(maxCalls, n) {
		go work()
	}
	for range n {
		r := <-results
		done(r.i, r.answer, r.err)
	}
}

// errEnds is the error of a call that ended its goroutine.
var errEnds = errors.New("the call ended its goroutine")

// Call runs one call to owner, which ends with ctx, or after timeout. A panic in
// it is an error. Errors say what the call was for, and name the owner.
func Call(ctx context.Context, what string, rows int, of, owner string, timeout time.Duration, call func(ctx context.Context) error) (err error) {
	defer func() {
		if err != nil {
			keys := "keys"
			if rows == 1 {
				keys = "key"
			}
			err = fmt.Errorf("%s %d %s%s at %q: %w", what, rows, keys, of, owner, err)
		}
	}()
	defer rpc.Recovered(&err)
	if owner == "" {
		return rpc.ErrNoOwner
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	return call(ctx)
}

// Within is longest, or less if ctx ends before: then three quarters of what
// is left, so that there is time to answer the caller.
func Within(ctx context.Context, longest time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(longest, max(time.Until(deadline), 0)*3/4)
	}
	return longest
}

// Answer is what an owner answered for some rows, or why it did not.
type Answer[A any] struct {
	Rows   []int
	Answer A
	Err    error
}

// Gather collects the answers that ask hands to done, those without an error
// apart from the others. If no owner answered, err has a few of the reasons.
func Gather[A any](ask func(done func(rows []int, answer A, err error))) (answers, lost []Answer[A], err error) {
	ask(func(rows []int, answer A, err error) {
		if err != nil {
			lost = append(lost, Answer[A]{Rows: rows, Err: err})
			return
		}
		answers = append(answers, Answer[A]{Rows: rows, Answer: answer})
	})
	const few = 8
	if len(answers) == 0 {
		for _, l := range lost[:min(len(lost), few)] {
			err = errors.Join(err, l.Err)
		}
	}
	return answers, lost, err
}

// Pick returns these rows of a column; nil of nil.
func Pick[T any](column []T, rows []int) []T {
	if column == nil {
		return nil
	}
	picked := make([]T, len(rows))
	for i, row := range rows {
		picked[i] = column[row]
	}
	return picked
}

// UpTo is the rows from 0 to n-1.
func UpTo(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

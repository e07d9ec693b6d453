// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc/questions"
)

// Each way to be refused is explained: what decided, in the trace, and what the host knows
// of the key then.
func TestEachWayToBeRefusedIsExplained(t *testing.T) {
	drain := func(n *headgate.Node, key string) {
		for range 500 {
			if !n.For(key).Allow() {
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		rule string // a field list after key: k
		cut  bool   // the owner, before anything
		do   func(n *headgate.Node)
		want string // in the newest decision; empty: none is refused
		now  string // in what the host knows

		refuses bool // the host says that it would refuse one more event
	}{
		"over the part of the limit": {
			refuses: true,
			rule:    "limit: 60/s, burst: 60, algorithm: elastic", do: func(n *headgate.Node) { drain(n, "k") },
			want: "refused: this host's part of the limit has too few tokens; the same event would be allowed in", now: "all of it is used: the next token is there in",
		},
		"asked and refused": {
			refuses: true,
			rule:    "limit: 600/h, burst: 60, algorithm: auto", do: func(n *headgate.Node) { drain(n, "k") },
			want: "refused: ", now: "the key's owner, which this host has just asked for more, had none either, or did not answer: it may have a token in",
		},
		"asked and refused, and the owner may have more by now": {
			rule: "limit: 600/h, burst: 60, algorithm: auto", do: func(n *headgate.Node) {
				drain(n, "k")
				time.Sleep(2 * time.Second) // of virtual time: a refusal stands for less
			},
			want: "refused: ", now: "auto asks the key's owner for more, unless it asked too often",
		},
		"asked and refused, of a soft limit": {
			rule: "limit: 600/h, burst: 60, algorithm: auto, enforce: 0%", do: func(n *headgate.Node) {
				for range 100 {
					n.For("k").Allow()
				}
			},
			want: "over the limit, and let through: the rule is enforced for 0% only", now: "; the rule is enforced for 0% of what is over it, and lets the rest through",
		},
		"asked and refused, of a staged percent": {
			refuses: true,
			rule:    "limit: 600/h, burst: 60, algorithm: auto, enforce: 50%", do: func(n *headgate.Node) { drain(n, "k") },
			want: "refused: ", now: "; the rule is enforced for 50% of what is over it, and lets the rest through",
		},
		"the limit is 0, under auto": {
			refuses: true,
			rule:    "limit: 0/s, algorithm: auto", do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: ", now: "the limit is 0: nothing is allowed",
		},
		"exact": {
			refuses: true,
			rule:    "limit: 60/s, burst: 60, algorithm: exact", do: func(n *headgate.Node) { drain(n, "k") },
			want: "has too few tokens", now: "each event asks the key's owner, whose bucket has the whole limit of 60/s; all of it is used: the next token is there in",
		},
		"fallback even": {
			refuses: true,
			rule:    "limit: 60/s, burst: 60, algorithm: elastic", cut: true, do: func(n *headgate.Node) { drain(n, "k") },
			want: "refused: the fallback `even` has too few tokens", now: "`fallback: even` gives this host 20 events/s: 60/s, divided by 3 hosts",
		},
		"fallback closed": {
			refuses: true,
			rule:    "limit: 60/s, algorithm: elastic, fallback: closed", cut: true, do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: the fallback `closed`", now: "`fallback: closed` refuses everything",
		},
		"the owner learns": {
			refuses: true,
			rule:    "limit: 60/s, algorithm: fair-share, fallback: closed", do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: the fallback `closed`", now: "UTC (for `learning`, 10s, an owner that is new to the key, as after a start, grants nothing to hosts that held nothing); `fallback: closed` refuses everything",
		},
		"slots, and the owner learns": {
			refuses: true,
			rule:    "limit: 3 in-flight, algorithm: fair-share, fallback: closed, learning: 1m", do: func(n *headgate.Node) { n.For("k").TryAcquire(1) },
			now: "UTC (for `learning`, 1m0s, an owner",
		},
		"exact, and the owner is gone": {
			refuses: true,
			rule:    "limit: 60/s, algorithm: exact, fallback: closed", cut: true, do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: ", now: "`fallback: closed` refuses everything",
		},
		"a soft limit": {
			rule: "limit: 3/s, burst: 3, algorithm: even, enforce: 0%", do: func(n *headgate.Node) {
				n.For("k").Allow()
				n.For("k").Allow()
			},
			want: "over the limit, and let through: the rule is enforced for 0% only", now: "all of it is used",
		},
		"max_cost": {
			rule: "limit: 60/s, burst: 60, max_cost: 5, algorithm: even", do: func(n *headgate.Node) { n.For("k").AllowN(time.Now(), 6) },
			want: "refused: 6 tokens are more than one event may cost, 5",
		},
		"max_wait": {
			refuses: true,
			rule:    "limit: 3/s, burst: 3, max_wait: 1s, algorithm: even", do: func(n *headgate.Node) {
				n.For("k").Reserve()
				n.For("k").Reserve()
				_ = n.For("k").Wait(context.Background())
			},
			want: "now, or within the time that the caller would wait, at most max_wait, 1s; the same event would be allowed in 1s",
		},
		"max_debt": {
			refuses: true,
			rule:    "limit: 3/s, burst: 3, max_debt: 2s, max_cost: 3, algorithm: even", do: func(n *headgate.Node) {
				n.For("k").Charge(3)
				n.For("k").Decide(context.Background(), 1, 0)
			},
			want: "refused: this host's part of the limit has too few tokens", now: "is 2 tokens in debt: the debt is paid in",
		},
		"max_keys": {
			refuses: true,
			rule:    "limit: 3/s, max_keys: 1, algorithm: even", do: func(n *headgate.Node) {
				n.For("k-first").Allow()
				n.For("k").Allow()
			},
			want: "refused: the rule has its max_keys, 1, in use at this host", now: "max_keys: 1, and 1 key uses it",
		},
		"the limit is 0": {
			refuses: true,
			rule:    "limit: 0/s, algorithm: even", do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: ", now: "no tokens are there, and none come",
		},
		"all slots are held": {
			refuses: true,
			rule:    "limit: 3 in-flight, algorithm: even", do: func(n *headgate.Node) {
				_, ok := n.For("k").TryAcquire(1)
				n.For("k").TryAcquire(1)
				if !ok {
					t.Error("no slot at all")
				}
			},
			now: "all 1 slots of this host are held, of 3 in-flight in the cluster",
		},
		"all slots are held, and the owner is gone": {
			refuses: true,
			rule:    "limit: 3 in-flight, algorithm: fair-share", cut: true, do: func(n *headgate.Node) {
				n.For("k").TryAcquire(1)
				n.For("k").TryAcquire(1)
			},
			now: "; `fallback: even` gives it 1; all 1 slots of this host are held, of 3 in-flight in the cluster",
		},
		"slots, and the owner is gone": {
			refuses: true,
			rule:    "limit: 3 in-flight, algorithm: fair-share, fallback: closed", cut: true, do: func(n *headgate.Node) { n.For("k").TryAcquire(1) },
			now: "; `fallback: closed` refuses everything",
		},
		"a caller of higher priority": {
			refuses: true,
			rule:    "limit: 6 in-flight, algorithm: even", do: func(n *headgate.Node) {
				n.For("k").TryAcquire(1)
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					_, _ = n.For("k").Acquire(ctx, 2, limiter.Priority(9))
				}()
				synctest.Wait()
				if _, ok := n.For("k").TryAcquire(1); ok {
					t.Error("a caller overtook one of higher priority")
				}
			},
			now: "1 of the 2 slots of this host are free, of 6 in-flight in the cluster: too few for the caller who is next; 2 slots are waited for, and callers of higher priority are served first",
		},
		"a staged percent": {
			refuses: true,
			rule:    "limit: 3/s, burst: 3, algorithm: even, enforce: 50%", do: func(n *headgate.Node) { drain(n, "k") },
			want: "refused: this host's part of the limit has too few tokens", now: "the rule is enforced for 50% of what is over it, and lets the rest through",
		},
		"drop ratio": {
			rule: "limit: 60/s, algorithm: drop-ratio", do: func(n *headgate.Node) {
				for range 10 {
					for range 200 {
						n.For("k").Allow()
					}
					time.Sleep(time.Second)
				}
				drain(n, "k")
			},
			want: "refused by chance: the cluster is over the limit", now: "% of all events by chance, as the key's owner instructs",
		},
		"a caller without rights": {
			rule: "limit: 60/s, algorithm: even", do: func(n *headgate.Node) {
				n.Group().Denied("k", errors.New(`"web" may not use this key`))
			},
			want: `refused before the limit was looked at: "web" may not use this key`, now: "no caller uses the key at this host",
		},
		"slots, and an event": {
			rule: "limit: 3 in-flight, algorithm: even", do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: the rule limits slots in flight: acquire them",
		},
		"a cost below 0": {
			rule: "limit: 3/s, algorithm: even", do: func(n *headgate.Node) { n.For("k").AllowN(time.Now(), -1) },
			want: "refused: a cost cannot be negative",
		},
		"no rule": {
			refuses: true,
			rule:    "", do: func(n *headgate.Node) { n.For("k").Allow() },
			want: "refused: no rule matches the key", now: "`unmatched: deny` refuses everything",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := "unmatched: deny\ndefaults: {update_interval: 1s}\nlimits: []"
				if tt.rule != "" {
					rules = "unmatched: deny\ndefaults: {update_interval: 1s}\nlimits: [{key: 'k*', " + tt.rule + "}]"
				}
				nodes, wire := bubble.Start(t, 3, rules)
				at := nodes[0]
				for _, n := range nodes {
					if n.Address() != at.Ring().Owner("k") {
						at = n
					}
				}
				if tt.cut {
					wire.Cut(at.Ring().Owner("k"))
				}
				if failed := at.Trace(t.Context(), "k", true); len(failed) > 0 != tt.cut {
					t.Fatal(failed)
				}
				if (strings.Contains(tt.rule, "elastic") || strings.Contains(tt.rule, "auto")) && !tt.cut {
					at.For("k").Allow()
					time.Sleep(3 * time.Second) // of virtual time, for a grant
				}
				tt.do(at)
				e := at.Explain(t.Context(), "k")
				if len(e.Hosts) != 3 || e.Owner != at.Ring().Owner("k") || e.OwnerAnswers == tt.cut || e.OwnerEpoch.IsZero() != tt.cut {
					t.Fatalf("%+v", e)
				}
				for _, h := range e.Hosts {
					if h.Host != at.Address() {
						continue
					}
					t.Logf("%s — %s", e.Because, h.Key.Because)
					last := explain.Decision{}
					if len(h.Decisions) > 0 {
						last = h.Decisions[len(h.Decisions)-1]
					}
					if !strings.Contains(last.Because, tt.want) || (tt.want == "") != (len(h.Decisions) == 0) {
						t.Errorf("decided: %+v, want %q", last, tt.want)
					}
					if !strings.Contains(h.Key.Because, tt.now) {
						t.Errorf("the host: %q, want %q", h.Key.Because, tt.now)
					}
					if strings.Contains(h.Key.Because, "0 slots are waited for") {
						t.Errorf("nobody waits: %q", h.Key.Because)
					}
					if h.Key.Refuses != tt.refuses {
						t.Errorf("the host says that it refuses: %t, want %t: %s", h.Key.Refuses, tt.refuses, h.Key.Because)
					}
				}
				time.Sleep(time.Minute) // of virtual time: callers that wait give up
			})
		})
	}
}

// Since when a host is in fallback, and since when the owner knows the members.
func TestExplainSaysSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		nodes, wire := bubble.Start(t, 3, "defaults: {update_interval: 1s, lease: 10s}\nlimits: [{key: k, limit: 60/s, algorithm: elastic}]")
		owner := nodes[0].Ring().Owner("k")
		at := nodes[0]
		if at.Address() == owner {
			at = nodes[1]
		}
		look := func() (explain.Explanation, explain.Host) {
			at.For("k").Allow()
			e := at.Explain(t.Context(), "k")
			for _, h := range e.Hosts {
				if h.Host == at.Address() {
					return e, h
				}
			}
			t.Fatal("the host is missing")
			return e, explain.Host{}
		}
		if _, h := look(); h.Key.FallbackSince == nil || h.Key.FallbackSince.Sub(began).Abs() > time.Second {
			t.Errorf("before a grant: in fallback since %v", h.Key.FallbackSince)
		}
		for range 5 {
			time.Sleep(time.Second)
			at.For("k").Allow()
		}
		e, h := look()
		if h.Key.FallbackSince != nil || h.Key.Fallback {
			t.Errorf("with a grant: in fallback since %v", h.Key.FallbackSince)
		}
		if h.Owner != owner || h.Epoch.Sub(began).Abs() > time.Second || !e.OwnerEpoch.Equal(h.Epoch) {
			t.Errorf("the owner is %s since %v, for the host %s since %v", e.Owner, e.OwnerEpoch, h.Owner, h.Epoch)
		}

		cut := time.Now()
		wire.Cut(owner)
		for range 60 {
			time.Sleep(time.Second)
			at.For("k").Allow()
		}
		e, h = look()
		if since := h.Key.FallbackSince; since == nil || since.Sub(cut) < 5*time.Second || since.Sub(cut) > 12*time.Second || !strings.Contains(h.Key.Because, since.UTC().Format(time.DateTime)) {
			t.Errorf("without an owner since %v: in fallback since %v, %s", cut, since, h.Key.Because)
		}
		if !e.OwnerEpoch.IsZero() {
			t.Errorf("the owner answers nothing, and is said to know the members since %v", e.OwnerEpoch)
		}
	})
}

// Under gossip, a host knows what others used as soon as they say so: Explain does too, and so does what
// follows when the rule changes.
func TestAHostUnderGossipShowsWhatOthersUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := func(algorithm string) *dynamicconfig.Snapshot {
			return limits(t, "defaults: {update_interval: 1s}\nlimits: [{key: k, limit: 1/m, burst: 20, algorithm: "+algorithm+"}]")
		}
		source := memory.New(rules("gossip"))
		nodes, _ := bubble.StartWith(t, 2, func(int) dynamicconfig.Source { return source })
		quiet, busy := nodes[0], nodes[1]
		time.Sleep(2 * time.Second)
		quiet.For("k").Allow()
		time.Sleep(2 * time.Second)
		for range 19 {
			busy.For("k").Allow()
		}
		time.Sleep(2 * time.Second)
		for _, h := range quiet.Explain(t.Context(), "k").Hosts {
			if !h.Key.Refuses || !strings.Contains(h.Key.Because, "all of it is used") {
				t.Errorf("%s refuses: %t: %s", h.Host, h.Key.Refuses, h.Key.Because)
			}
		}
		source.Set(rules("even"))
		time.Sleep(2 * time.Second)
		if quiet.For("k").Allow() || busy.For("k").Allow() {
			t.Error("an event passes after the change, and all tokens were used before")
		}
	})
}

// Hosts that leave gossip together let pass what is left of the bucket, and not what each of them
// remembers of its own last event.
func TestHostsThatLeaveGossipShareWhatIsLeft(t *testing.T) {
	for _, to := range []string{"even", "exact", "auto", "request-weighted"} {
		synctest.Test(t, func(t *testing.T) {
			rules := func(algorithm string) *dynamicconfig.Snapshot {
				return limits(t, "defaults: {update_interval: 1s}\nlimits: [{key: k, limit: 1/h, burst: 30, algorithm: "+algorithm+"}]")
			}
			source := memory.New(rules("gossip"))
			nodes, _ := bubble.StartWith(t, 3, func(int) dynamicconfig.Source { return source })
			time.Sleep(2 * time.Second)
			passed := 0
			use := func(events int) {
				for range events {
					for _, n := range nodes {
						if n.For("k").Allow() {
							passed++
						}
					}
				}
				time.Sleep(2 * time.Second)
			}
			use(1)
			use(4) // none of the hosts is asked after it knows of these
			source.Set(rules(to))
			time.Sleep(2 * time.Second)
			use(40)
			use(40)
			if passed > 30 {
				t.Errorf("%s: %d events passed of a burst of 30", to, passed)
			}
		})
	}
}

// Questions of a service's own go to any host, and no name is taken twice.
func TestHostsAnswerQuestionsOfTheServicesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := bubble.Start(t, 3, "limits: []", headgate.WithAnswers(questions.Answers{
			"twice": func(_ context.Context, about []byte) (any, error) { return string(about) + string(about), nil },
		}))
		for _, n := range nodes {
			var got string
			if err := nodes[0].Ask(t.Context(), n.Address(), "twice", []byte("ab"), &got); err != nil || got != "abab" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if err := nodes[0].Ask(t.Context(), nodes[1].Address(), "thrice", nil, new(string)); err == nil {
			t.Error("an unknown question is answered")
		}
		for i := range limiter.MaxTraced {
			if failed := nodes[0].Trace(t.Context(), string(rune('a'+i)), true); len(failed) > 0 {
				t.Fatal(failed)
			}
		}
		if failed := nodes[0].Trace(t.Context(), "more", true); len(failed) != 3 {
			t.Errorf("one more key is traced: %v", failed)
		}
	})
}

// A context without an end is one that callers have at hand. YARPC makes no call under it.
func TestHostsAnswerUnderAContextWithoutAnEnd(t *testing.T) {
	nodes, _ := cluster(t, 2, memory.New(limits(t, fast)))
	for _, h := range nodes[0].Explain(context.Background(), "k").Hosts {
		if h.Error != "" {
			t.Errorf("%s explains: %s", h.Host, h.Error)
		}
	}
	for host, err := range nodes[0].Reset(context.Background(), "k") {
		t.Errorf("%s resets: %v", host, err)
	}
}

// A caller that asks all hosts waits for one deadline, however many of them hang and however many questions it has.
func TestAllHostsTogetherAreAskedUntilOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := bubble.Start(t, 150, "limits: []", headgate.WithAnswers(questions.Answers{
			"hangs": func(ctx context.Context, _ []byte) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}))
		began, failed := time.Now(), make(chan string, 2*len(nodes))
		nodes[0].AskAll(t.Context(), func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
			for range 2 {
				if err := ask(ctx, "hangs", nil, new(any)); err != nil {
					failed <- host
				}
			}
		})
		if took := time.Since(began); took > 6*time.Second || len(failed) != 2*len(nodes) {
			t.Errorf("%v, and %d asks failed", took, len(failed))
		}
	})
}

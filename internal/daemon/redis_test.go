// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/limiter/redis/redistest"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// String is what was written since the last take.
func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.text.String()
}

func (n *notes) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(n, nil))
}

const redisRules = `
defaults: {update_interval: 100ms, max_wait: 0s}
limits:
  - {key: "k:*", limit: 1/h, burst: 100, algorithm: redis, fallback: closed}
  - {key: "open:*", limit: 1/h, burst: 1, algorithm: redis, fallback: open}
`

// redisConfig is a daemon whose redis keys are at addresses. It is patient,
// because the machine may be busy.
func redisConfig(t *testing.T, addresses ...string) Config {
	t.Helper()
	redis.LogTo(quiet)
	c := config(t)
	c.Limits, c.HTTP = write(t, "limits.yaml", redisRules), "127.0.0.1:0"
	c.Redis = Redis{Addresses: addresses, Timeout: 5 * time.Second}
	return c
}

// Two daemons that know nothing of each other share a bucket.
func TestDaemonsShareBucketsInRedis(t *testing.T) {
	for name, addresses := range map[string]func() []string{
		"one server": func() []string { return []string{redistest.Start(t).Address} },
		"a cluster": func() (addresses []string) {
			for _, s := range redistest.StartCluster(t, 3) {
				addresses = append(addresses, s.Address)
			}
			return addresses
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := addresses()
			var asking sync.WaitGroup
			granted := make([]int, 4)
			for i := range 2 {
				d := start(t, redisConfig(t, at...))
				grpc, http := quotaservicepb.NewQuotaServiceClient(dial(t, d.Edge())), httpTo(t, "tcp", d.HTTP())
				asking.Go(func() {
					for range 60 {
						r, err := grpc.Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "b", TokensRequested: 1})
						if err != nil {
							t.Error(err)
						}
						if r.GetStatus() == quotaservicepb.AllowResponse_OK {
							granted[2*i]++
						}
					}
				})
				asking.Go(func() {
					for range 60 {
						switch status, text := post(t, http, `{"key": "k:b"}`); status {
						case 200:
							granted[2*i+1]++
						case 429:
						default:
							t.Errorf("%d %s", status, text)
						}
					}
				})
			}
			asking.Wait()
			if sum := granted[0] + granted[1] + granted[2] + granted[3]; sum != 100 {
				t.Errorf("%v are %d granted, want 100", granted, sum)
			}
		})
	}
}

func TestWhatBecomesOfKeysWhenRedisDies(t *testing.T) {
	server := redistest.Start(t)
	c, log := redisConfig(t, server.Address), new(notes)
	c.Redis.Timeout = 200 * time.Millisecond
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	client := httpTo(t, "tcp", d.HTTP())
	granted := func(key string) bool {
		status, _ := post(t, client, `{"key": "`+key+`"}`)
		return status == 200
	}
	eventually(t, "it grants", func() bool { return granted("k:b") })
	if got := d.health().Checks["redis"]; !got.OK {
		t.Errorf("with Redis: %+v", got)
	}
	server.Stop() // the worst: connections stay, and nothing answers
	for range 20 {
		if status, text := post(t, client, `{"key": "k:b"}`); status != 503 || !strings.Contains(text, `"failed"`) {
			t.Errorf("closed: %d %s", status, text)
		}
		if !granted("open:b") {
			t.Error("open: refused")
		}
	}
	if text := log.String(); !strings.Contains(text, "redis does not answer") || !strings.Contains(text, "its keys fall back") {
		t.Errorf("logged %s", text)
	}
	if got := d.health(); got.Checks["redis"].OK || !got.Ready {
		t.Errorf("without Redis: %+v", got)
	}
	server.Continue()
	eventually(t, "it grants again, and says so", func() bool {
		return granted("k:b") && strings.Contains(log.String(), "redis answers again")
	})
	if got := d.health().Checks["redis"]; !got.OK {
		t.Errorf("with Redis again: %+v", got)
	}
}

func TestRulesThatNameRedisNeedOne(t *testing.T) {
	c := redisConfig(t)
	c.Redis = Redis{}
	const want = `there is no algorithm "redis" here: name the server, with headgate serve --redis`
	if _, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	c.Limits = write(t, "limits.yaml", rules)
	log := new(notes)
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Limits, []byte(redisRules), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says what to do", func() bool { return strings.Contains(log.String(), "with headgate serve --redis") })
	if _, ok := d.Node().Limits().Current().Match("k1"); !ok {
		t.Error("the good limits are gone")
	}
	if err := d.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestARedisThatNoRuleNamesIsTold(t *testing.T) {
	c, log := redisConfig(t, "127.0.0.1:1"), new(notes)
	c.Limits = write(t, "limits.yaml", rules)
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "it is never asked") {
		t.Errorf("logged %s", log)
	}
}

func TestRedisWantsItsPassword(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	if err := admin.ACLSetUser(t.Context(), "me", "on", ">secret", "~headgate:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+ping", "+hello").Err(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		redis Redis
		want  int
	}{
		"given":     {Redis{User: "me", Password: "secret"}, 200},
		"in a file": {Redis{User: "me", PasswordFile: write(t, "password", "secret\nand a note\n")}, 200},
		"wrong":     {Redis{User: "me", Password: "guess"}, 503},
	} {
		c := redisConfig(t, server.Address)
		tc.redis.Addresses, tc.redis.Timeout = c.Redis.Addresses, c.Redis.Timeout
		c.Redis = tc.redis
		if status, text := post(t, httpTo(t, "tcp", start(t, c).HTTP()), `{"key": "k:`+name[:2]+`"}`); status != tc.want {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// A new password is read for each new connection; a file that is gone changes nothing.
func TestThePasswordOfRedisMayChange(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	login := func(password, before string) {
		t.Helper()
		rules := []string{"on", ">" + password, "~headgate:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+ping", "+hello"}
		if before != "" {
			rules = append(rules, "<"+before)
		}
		if err := admin.ACLSetUser(t.Context(), "me", rules...).Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(t.Context(), "client", "kill", "user", "me").Err(); err != nil {
			t.Fatal(err)
		}
	}
	login("secret", "")
	c, file := redisConfig(t, server.Address), write(t, "password", "secret\n")
	c.Redis.User, c.Redis.PasswordFile = "me", file
	client := httpTo(t, "tcp", start(t, c).HTTP())
	answers := func() bool {
		status, _ := post(t, client, `{"key": "k:a"}`)
		return status == 200
	}
	eventually(t, "Redis answers", answers)
	login("next", "secret")
	if err := os.WriteFile(file, []byte("next\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis answers under the new password", answers)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	login("next", "")
	eventually(t, "Redis answers under the last good password", answers)
}

func TestMistakesAboutRedis(t *testing.T) {
	there := []string{"h:1"}
	for want, r := range map[string]Redis{
		"say where it is":              {User: "me", Password: "p"},
		`"h" is not host:port`:         {Addresses: []string{"h"}},
		"choose one":                   {Addresses: there, Password: "p", PasswordFile: "f"},
		`user "me" has no password`:    {Addresses: there, User: "me"},
		"is negative":                  {Addresses: there, Timeout: -1},
		"has a brace":                  {Addresses: there, Prefix: "{x}"},
		"stat nowhere: ":               {Addresses: there, PasswordFile: "nowhere"},
		"is to be the password":        {Addresses: there, PasswordFile: write(t, "empty", "\nsecret")},
		"and the file at most 4096 by": {Addresses: there, PasswordFile: write(t, "long", strings.Repeat("x", 4<<10+1))},
	} {
		c := config(t)
		c.Redis = r
		if d, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
			if err == nil {
				_ = d.Stop(context.Background())
			}
		}
	}
}

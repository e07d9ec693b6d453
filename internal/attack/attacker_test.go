// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// victimEnv has a victim as JSON: this process attacks it, and runs no tests.
const victimEnv = "HEADGATE_ATTACK_VICTIM"

func TestMain(m *testing.M) {
	if at := os.Getenv(victimEnv); at != "" {
		testrun.CollectLess()
		var v victim
		if err := json.Unmarshal([]byte(at), &v); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		os.Exit(v.suffer())
	}
	if unix := os.Getenv(bareEnv); unix != "" {
		if err := beBare(unix); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(testrun.Main(m))
}

// victim is where a daemon listens, and whether it is attacked in the long form.
type victim struct {
	Cluster, Edge, HTTP, Admin, Unix string
	Long                             bool
}

// attack has another process attack v, and returns what it said. Attackers have
// machines of their own, so that process is lower in priority than the daemon and honest
// clients.
func (v victim) attack(ctx context.Context, long bool) (said []byte, err error) {
	v.Long = long
	at, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	attacker := exec.CommandContext(ctx, "nice", "-n", "10", os.Args[0])
	attacker.Env = append(os.Environ(), victimEnv+"="+string(at))
	return attacker.CombinedOutput()
}

// sizes says how many connections an attack has at each port that it is for, or how often
// each of them does what it does.
type sizes struct {
	each, slowBodies, silent, unfinished, forms, halfBodies, deaf, callers, largeCallers, whole, entries int // connections

	pings, resets, large, newKeys int // on each connection
}

var (
	fewAttackers = sizes{
		each: 5, slowBodies: 20, silent: 50, unfinished: 2, forms: 4, halfBodies: 100, deaf: 2, callers: 20, largeCallers: 20, whole: 3, entries: 8,
		pings: 200, resets: 500, large: 1, newKeys: 5000,
	}
	manyAttackers = sizes{
		each: 20, slowBodies: 100, silent: 2500, unfinished: 4, forms: 10, halfBodies: 9000, deaf: 10, callers: 500, largeCallers: 200, whole: 8, entries: 32,
		pings: 2000, resets: 500_000, large: 40, newKeys: 1_000_000,
	}
)

// patience is how long attacks may last. The daemon ends what has no end of its own
// within seconds. A machine that is shared may take a minute for as much.
const patience = 8 * time.Minute

// suffer does all attacks at once. It returns 1 if one lasted for longer than
// patience.
func (v victim) suffer() (code int) {
	if err := moreFiles(); err != nil {
		fmt.Println(err)
		return 2
	}
	n := fewAttackers
	if v.Long {
		n = manyAttackers
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var attacks sync.WaitGroup
	add := func(name string, attack func()) {
		attacks.Go(func() {
			attack()
			if ctx.Err() != nil {
				fmt.Println("the daemon let an attack go on:", name)
			}
		})
	}
	for _, at := range [][2]string{{"tcp", v.Edge}, {"tcp", v.Cluster}, {"tcp", v.HTTP}, {"tcp", v.Admin}, {"unix", v.Unix}} {
		add("noise at "+at[1], func() { each(ctx, n.each, at[0], at[1], func(c net.Conn) { noise(c, 1) }) })
		add("pings at "+at[1], func() { each(ctx, n.each, at[0], at[1], func(c net.Conn) { pings(c, n.pings) }) })
		add("slow headers at "+at[1], func() {
			each(ctx, n.each, at[0], at[1], func(c net.Conn) { halves(c, "POST /v1/allow HTTP/1.1\r\nHost: x\r\nX-") })
		})
		add("slow bodies at "+at[1], func() {
			each(ctx, n.slowBodies, at[0], at[1], func(c net.Conn) {
				halves(c, "POST /v1/allow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{\"key\"")
			})
		})
		add("large headers at "+at[1], func() {
			each(ctx, 5, at[0], at[1], func(c net.Conn) { halves(c, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1<<20)) })
		})
		add("silence at "+at[1], func() {
			held, end := context.WithTimeout(ctx, 8*time.Second)
			defer end()
			each(held, n.silent, at[0], at[1], func(c net.Conn) { halves(c, "P") })
		})
	}
	for _, at := range [][3]string{{"tcp", v.Edge, allow}, {"tcp", v.Edge, update}, {"tcp", v.Cluster, update}, {"unix", v.Unix, allow}} {
		add("unfinished "+at[2]+" at "+at[1], func() { each(ctx, n.unfinished, at[0], at[1], func(c net.Conn) { unfinished(c, at[2]) }) })
		add("resets of "+at[2]+" at "+at[1], func() { each(ctx, 2, at[0], at[1], func(c net.Conn) { resets(c, at[2], n.resets) }) })
	}
	for _, path := range []string{"/limits/check", "/login", "/v1/limits"} {
		add("endless forms to "+path, func() { each(ctx, n.forms, "tcp", v.Admin, func(c net.Conn) { endlessForm(c, path) }) })
	}
	add("half bodies with large headers", func() { each(ctx, n.halfBodies, "tcp", v.HTTP, func(c net.Conn) { halves(c, halfSentBody) }) })
	for _, at := range [][2]string{{"tcp", v.Edge}, {"unix", v.Unix}} {
		add("answers that nobody takes at "+at[1], func() {
			held, end := context.WithTimeout(ctx, 20*time.Second) // a client whose calls were refused may stay
			defer end()
			each(held, n.deaf, at[0], at[1], func(c net.Conn) { deaf(c, "/doorman.Capacity/GetCapacity", resources(20_000), n.large) })
		})
	}
	add("calls at once", func() { each(ctx, n.callers, "tcp", v.Edge, func(c net.Conn) { callsAtOnce(c, 0) }) })
	add("calls with large headers", func() { each(ctx, n.largeCallers, "tcp", v.Edge, func(c net.Conn) { callsAtOnce(c, 15<<10) }) })
	for _, at := range [][2]string{{"tcp", v.Edge}, {"unix", v.Unix}} {
		add("large messages at "+at[1], func() { each(ctx, n.whole, at[0], at[1], func(c net.Conn) { whole(c, allow, longKey(), n.large) }) })
	}
	for _, method := range []string{"GetCapacity", "GetServerCapacity", "ReleaseCapacity"} {
		// Empty messages of two bytes, which take a hundred when they are decoded.
		empty := bytes.Repeat([]byte{0x12, 0}, 2<<20-500)
		add("empty resources to "+method, func() {
			each(ctx, n.whole, "tcp", v.Edge, func(c net.Conn) { whole(c, "/doorman.Capacity/"+method, empty, n.large) })
		})
	}
	for _, entry := range []string{"{}", "[]", "null"} {
		add("many entries "+entry, func() { v.entries(ctx, entry, n.entries, n.large) })
	}
	add("new keys", func() { v.keys(ctx, n.newKeys) })
	for range 3 {
		add("a bomb", func() { _ = v.bomb(ctx) }) // the daemon may close connections that hold much
	}
	attacks.Wait()
	if ctx.Err() != nil {
		return 1
	}
	return 0
}

const (
	allow  = "/quotaservice.QuotaService/Allow"
	update = "/headgate.v1.Decider/Update"
)

// each runs attack n times at once with connections of its own, and waits until all
// have ended, or ctx has.
func each(ctx context.Context, n int, network, address string, attack func(net.Conn)) {
	var all sync.WaitGroup
	for range n {
		conn, err := dial(ctx, network, address)
		if err != nil {
			continue
		}
		all.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			attack(conn)
		})
	}
	all.Wait()
}

// keys asks for n keys that nobody asked for before.
func (v victim) keys(ctx context.Context, n int) {
	type ask struct {
		Key string `json:"key"`
	}
	for from := 0; from < n && ctx.Err() == nil; from += 1000 {
		asks := make([]ask, 1000)
		for i := range asks {
			asks[i].Key = fmt.Sprintf("attack:%d:%s", from+i, strings.Repeat("k", 100))
		}
		body, _ := json.Marshal(map[string]any{"requests": asks})
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+v.HTTP+"/v1/allow", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// entries has so many clients send the largest bodies that have nothing but a list of entry,
// each n times.
func (v victim) entries(ctx context.Context, entry string, clients, n int) {
	body := `{"requests":[` + strings.Repeat(entry+",", (1<<20-20)/(len(entry)+1)) + entry + `]}`
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range n {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+v.HTTP+"/v1/allow", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				if answer, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
		})
	}
	all.Wait()
}

// bombSize is that of a message, in MiB.
const bombSize = 100

// bomb sends a message that is small until it is decompressed.
func (v victim) bomb(ctx context.Context) error {
	conn, err := grpc.NewClient(v.Edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = quotaservicepb.NewQuotaServiceClient(conn).Allow(ctx,
		&quotaservicepb.AllowRequest{Namespace: strings.Repeat("\x00", bombSize<<20)}, grpc.UseCompressor(gzip.Name))
	return err
}

// moreFiles lets this process and its children have as many connections as they can.
func moreFiles() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}

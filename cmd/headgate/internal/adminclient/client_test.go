// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/headgate/headgate/internal/certtest"
)

// The error about an address that does not answer as a decider does says what to look at.
func TestAnAdminThatDoesNotAnswerSaysWhatToLookAt(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	programs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"title": "There is nothing at this path.", "status": 404, "detail": "Look at /v1/openapi.json for what there is."}`)
	}))
	defer programs.Close()
	calls := grpc.NewServer()
	edge, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go calls.Serve(edge)
	defer calls.Stop()
	earlier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"title": "Not Found", "status": 404, "detail": "there is nothing at GET \"/v1/keys\": look at /v1/openapi.json for what there is"}`)
	}))
	defer earlier.Close()
	cmd := &cobra.Command{Use: "keys"}
	cmd.SetContext(t.Context())
	ask := func(ctx context.Context, c *Client) error {
		return c.Ask(ctx, http.MethodGet, "/v1/keys", "", new(any))
	}
	for address, want := range map[string]string{
		gone.Listener.Addr().String():     "connection refused: look whether it runs, and has --admin " + gone.Listener.Addr().String(),
		secure.Listener.Addr().String():   "the decider has a certificate: name its authority with --ca",
		other.Listener.Addr().String():    "404 Not Found: is this its --admin address, and has it --operators?",
		programs.Listener.Addr().String(): "404 Not Found: is this its --admin address, and has it --operators?",
		earlier.Listener.Addr().String():  "this decider does not know GET /v1/keys: it is of another release than this command",
		edge.Addr().String():              "what listens at " + edge.Addr().String() + " does not speak HTTP: is it the decider's --edge, --listen or --gossip-address?",
		"http://10.0.0.7:7936":            `--admin "http://10.0.0.7:7936": write host:port and nothing else, as in 10.0.0.7:7936`,
		"10.0.0.7:7936/":                  `--admin "10.0.0.7:7936/": write host:port and nothing else`,
		"":                                "--admin: say where a decider serves its operators",
	} {
		a := Decider{Address: address}
		if _, err := a.Client(); strings.HasPrefix(want, "--admin") && err == nil {
			t.Errorf("there is a client of %q", address)
		}
		if err := a.Use(cmd, ask); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An error of the decider may contain a key that a program chose. The command escapes its control
// characters.
func TestAnErrorOfTheDeciderChangesNoTerminal(t *testing.T) {
	t.Parallel()
	decider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"title": "t", "status": 422, "detail": "one\nb\u001b[2J", "mistakes": [{"line": 1, "column": 2, "message": "c\u202ed"}]}`)
	}))
	defer decider.Close()
	cmd := &cobra.Command{Use: "keys"}
	cmd.SetContext(t.Context())
	a := Decider{Address: decider.Listener.Addr().String()}
	err := a.Use(cmd, func(ctx context.Context, c *Client) error {
		return c.Ask(ctx, http.MethodGet, "/v1/keys", "", new(any))
	})
	if want := "one\nb\\x1b[2J\n1:2: c\\u202ed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q, want %q", err, want)
	}
}

// An --edge with a certificate hangs up on HTTP/1.1, and a decider may be too slow: neither of them is down.
func TestAnAdminThatHangsUpOrIsSlowSaysWhatToLookAt(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer slow.Close()
	defer close(done)
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}))
	defer edge.Close()
	cmd := &cobra.Command{Use: "keys"}
	cmd.SetContext(t.Context())
	for address, want := range map[string]string{
		slow.Listener.Addr().String(): "did not answer in time: look whether it runs, and can be reached from here, or wait longer with --timeout",
		edge.Listener.Addr().String(): "hung up: look whether the decider runs, and has --admin " + edge.Listener.Addr().String() + ", which is not its --edge",
	} {
		a := Decider{Address: address, Timeout: 10 * time.Second}
		if address == slow.Listener.Addr().String() {
			a.Timeout = 50 * time.Millisecond
		}
		err := a.Use(cmd, func(ctx context.Context, c *Client) error {
			return c.Ask(ctx, http.MethodGet, "/v1/keys", "", new(any))
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A change whose answer does not arrive may be stored. The error says so, of changes that were sent.
func TestAChangeWithoutAnAnswerIsInDoubt(t *testing.T) {
	t.Parallel()
	arrived, done := make(chan struct{}), make(chan struct{})
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("end") {
		case "hang":
			close(arrived)
			<-done
		case "middle":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		}
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}))
	defer cut.Close()
	defer close(done)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	const doubt = "It may have done what it was asked for: before you ask again, look"
	for _, tt := range []struct {
		at           *httptest.Server
		method, path string
		doubt        bool
		want         string
	}{
		{cut, http.MethodPut, "/v1/limits?message=x&end=hang", true, "did not answer in time"},
		{cut, http.MethodPut, "/v1/limits?message=x", true, "hung up"},
		{cut, http.MethodPut, "/v1/limits?message=x&end=middle", true, "the answer ended in the middle"},
		{cut, http.MethodPost, "/v1/keys/reset?key=k", true, "hung up"},
		{cut, http.MethodDelete, "/v1/trace?key=dry_run", true, "hung up"},
		{cut, http.MethodPut, "/v1/limits?dry_run=true", false, "hung up"},
		{cut, http.MethodPost, "/v1/limits/check", false, "hung up"},
		{cut, http.MethodPost, "/v1/limits/dry-run", false, "hung up"},
		{cut, http.MethodGet, "/v1/keys", false, "hung up"},
		{gone, http.MethodPut, "/v1/limits?message=x", false, "connection refused"},
	} {
		c, err := (&Decider{Address: tt.at.Listener.Addr().String()}).Client()
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancelCause(context.Background())
		defer end(nil)
		if strings.HasSuffix(tt.path, "hang") {
			go func() {
				<-arrived
				end(context.DeadlineExceeded) // its time ends when the decider has the request, and not before
			}()
		}
		err = c.Ask(ctx, tt.method, tt.path, "", new(any))
		if err == nil || strings.Contains(err.Error(), doubt) != tt.doubt || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q and in doubt: %t", tt.method, tt.path, err, tt.want, tt.doubt)
		}
	}
}

// The error of a command that its user interrupts says so, and does not say that the decider may be down.
func TestACommandThatIsEndedSaysSo(t *testing.T) {
	t.Parallel()
	arrived, done := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-done
	}))
	defer slow.Close()
	defer close(done)
	ctx, end := context.WithCancelCause(context.Background())
	go func() {
		<-arrived
		end(errors.New("interrupt signal received"))
	}()
	c, err := (&Decider{Address: slow.Listener.Addr().String()}).Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(ctx, http.MethodGet, "/v1/keys", "", new(any)); err == nil || !strings.HasSuffix(err.Error(), "yet: interrupt signal received") {
		t.Error(err)
	}
}

func TestCertificatesOnOneSideSayWhatToDo(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem") // of another authority
	if err := os.WriteFile(ca, []byte(certtest.New(t).PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{Use: "keys"}
	cmd.SetContext(t.Context())
	for address, want := range map[string]string{
		plain.Listener.Addr().String():  "the decider has no --admin-cert at " + plain.Listener.Addr().String() + ": leave out --ca",
		secure.Listener.Addr().String(): "name the authority of its --admin-cert with --ca",
	} {
		a := Decider{Address: address, ca: ca}
		if err := a.Use(cmd, func(ctx context.Context, c *Client) error {
			return c.Ask(ctx, http.MethodGet, "/v1/keys", "", new(any))
		}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

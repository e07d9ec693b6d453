// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/quotaserviceconfig"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

func TestMain(m *testing.M) { waittest.Main(m) }

const (
	ok          = pb.AllowResponse_OK
	timeout     = pb.AllowResponse_REJECTED_TIMEOUT
	invalid     = pb.AllowResponse_REJECTED_INVALID_REQUEST
	serverError = pb.AllowResponse_REJECTED_SERVER_ERROR
)

// imported makes limits of a config of quotaservice's.
func imported(t testing.TB, config string) []byte {
	t.Helper()
	limits, err := quotaserviceconfig.Import("quotaservice.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

func snapshot(t testing.TB, config string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", imported(t, config))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serveGroup serves a lone host's limiters, over memory.
func serveGroup(t testing.TB, config string) pb.QuotaServiceClient {
	t.Helper()
	return serve(t, engine.New(limiter.NewGroup(snapshot(t, config), 1), nil))
}

func serve(t testing.TB, b edge.Engine) pb.QuotaServiceClient {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	quotaservice.NewServer(b, quotaservice.ServerOptions{}).Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return pb.NewQuotaServiceClient(conn)
}

// serveDaemon serves what `headgate serve` does, over loopback.
func serveDaemon(t testing.TB, config, algorithm string) pb.QuotaServiceClient {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	limits := bytes.Replace(imported(t, config), []byte("algorithm: exact"), []byte("algorithm: "+algorithm), 1)
	if err := os.WriteFile(file, limits, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), daemon.Config{Limits: file, Listen: "127.0.0.1:0", Edge: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(d.Edge(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pb.NewQuotaServiceClient(conn)
}

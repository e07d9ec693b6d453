// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/bucketkey"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/daemon/doors"
	"github.com/headgate/headgate/rpc/claims"
	rpcedge "github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/httpapi"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

// Call is the interceptor that finds out who calls, and whether it may use the keys of
// the request. Health checks have no keys.
func (a *Access) Call(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	keys, decides := keysOf(request)
	if !decides {
		return handle(ctx, request)
	}
	caller, err := a.who(proofOf(ctx))
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	for _, key := range keys {
		if err := a.may(caller, rpcedge.Take, key); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}
	return handle(callers.With(ctx, caller), request)
}

// keysOf are the keys that a caller must have a right to, or else its request is refused; false if it
// does not decide about any. A request that cannot be read has none: its server refuses it.
func keysOf(request any) (keys []string, decides bool) {
	switch r := request.(type) {
	case *quotaservicepb.AllowRequest:
		return []string{bucketkey.Of(r.GetNamespace(), r.GetBucketName())}, true
	case *doormanpb.GetCapacityRequest, *doormanpb.GetServerCapacityRequest, *doormanpb.ReleaseCapacityRequest:
		return nil, true // their server asks MayUse about each resource
	case *headgatepb.UpdateRequest:
		return keysOfPayload(r), true
	}
	return nil, false
}

// keysOfPayload are those of a report, of takes or of claims.
func keysOfPayload(r *headgatepb.UpdateRequest) (keys []string) {
	payload := r.GetPayload()
	var report usage.Report
	if (usage.Columnar{}).DecodeReport(payload, &report) == nil {
		return report.Keys
	}
	var takes usage.Takes
	if usage.DecodeTakes(payload, &takes) == nil {
		for i := range takes.Rows {
			keys = append(keys, takes.Rows[i].Key)
		}
		return keys
	}
	if asked, err := claims.Decode(payload); err == nil {
		for i := range asked.Rows {
			keys = append(keys, asked.Rows[i].Key)
		}
	}
	return keys
}

// proofOf is what the caller of a gRPC method shows.
func proofOf(ctx context.Context) (proof callers.Proof) {
	proof.Certificate, _ = certificate(ctx)
	if p, ok := peer.FromContext(ctx); ok {
		if at, ok := p.AuthInfo.(local); ok {
			proof.UID = at.uid
		}
	}
	proof.Token = callers.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	return proof
}

// Wrap finds out who calls next. Paths that decide about no key are for everybody.
func (a *Access) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Decides(r) {
			next.ServeHTTP(w, r)
			return
		}
		var proof callers.Proof
		proof.Certificate, _ = callers.Certified(r.TLS)
		if conn, ok := doors.Conn(r.Context()); ok && conn.LocalAddr().Network() == "unix" {
			proof.UID = uidOf(conn)
		}
		proof.Token = callers.Bearer(r.Header.Values("Authorization"))
		caller, err := a.who(proof)
		if err != nil {
			httpapi.Unauthorized(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(callers.With(r.Context(), caller)))
	})
}

// MayUse returns why the caller whose call has ctx may not use key.
func (a *Access) MayUse(ctx context.Context, key string) error {
	return a.may(callers.From(ctx), rpcedge.Take, key)
}

// MayOverHTTP returns why the caller whose request of HTTP has ctx may not do something
// with key.
func (a *Access) MayOverHTTP(ctx context.Context, kind rpcedge.Kind, key string) error {
	return a.may(callers.From(ctx), kind, key)
}

// may returns why caller may not do something with key, and has it remembered.
func (a *Access) may(caller *callers.Caller, kind rpcedge.Kind, key string) error {
	err := caller.May(kind, key)
	if err != nil && a.Denied != nil {
		a.Denied(key, err)
	}
	return err
}

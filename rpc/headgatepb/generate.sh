#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Generates the Go code of the .proto files here and below, and of those that
# rpc/edge speaks. It needs protoc 3.21 or newer on the PATH; the plugins are
# the tools of go.mod, in their versions.
# What it writes is committed: building and testing need no protoc.
set -eu

cd "$(dirname "$0")/../.."
bin="$PWD/.bin"
mkdir -p "$bin"
for tool in \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	go.uber.org/yarpc/encoding/protobuf/protoc-gen-yarpc-go-v2 \
	google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
	go build -o "$bin/" "$tool"
done

PATH="$bin:$PATH" protoc -I . \
	--go_out=. --go_opt=paths=source_relative \
	rpc/headgatepb/headgate.proto \
	rpc/headgatepb/headgateyarpc/decider.proto
PATH="$bin:$PATH" protoc -I . \
	--yarpc-go-v2_out=. \
	rpc/headgatepb/headgateyarpc/decider.proto
# The same service without YARPC, in a package of its own.
grpc="github.com/headgate/headgate/rpc/headgatepb/headgategrpc;headgategrpc"
PATH="$bin:$PATH" protoc -I . \
	--go-grpc_out=. --go-grpc_opt=module=github.com/headgate/headgate \
	--go-grpc_opt=Mrpc/headgatepb/headgateyarpc/decider.proto="$grpc" \
	rpc/headgatepb/headgateyarpc/decider.proto
# Doorman's protocol, which is not ours.
PATH="$bin:$PATH" protoc -I . \
	--go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative \
	rpc/edge/doorman/doormanpb/doorman.proto
# quotaservice's protocol, which is not ours either.
PATH="$bin:$PATH" protoc -I . \
	--go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative \
	rpc/edge/quotaservice/quotaservicepb/quotaservice.proto

# The generator writes its own header; every file here starts with ours.
for file in rpc/headgatepb/*.pb.go rpc/headgatepb/headgateyarpc/*.pb*.go rpc/headgatepb/headgategrpc/*.pb.go \
	rpc/edge/doorman/doormanpb/*.pb.go rpc/edge/quotaservice/quotaservicepb/*.pb.go; do
	if [ "$(head -n 1 "$file")" != "// SPDX-License-Identifier: Apache-2.0" ]; then
		{ printf '// SPDX-License-Identifier: Apache-2.0\n\n'; cat "$file"; } >"$file.new"
		mv "$file.new" "$file"
	fi
done
gofmt -w rpc/headgatepb rpc/edge/doorman/doormanpb rpc/edge/quotaservice/quotaservicepb

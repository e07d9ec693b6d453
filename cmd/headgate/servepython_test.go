// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of docs/edges.md takes tokens over gRPC, with code that protoc made for Python.
func TestTokensOverGRPCFromPython(t *testing.T) {
	const generate = `python3 -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. quotaservice.proto`
	python := ""
	for _, program := range []string{"python3", "/usr/bin/python3"} { // Debian's packages are for the latter
		if exec.CommandContext(t.Context(), program, "-c", "import grpc, grpc_tools").Run() == nil {
			python = program
			break
		}
	}
	if python == "" {
		t.Skip("there is no python3 with grpcio and grpcio-tools")
	}
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, `limits: [{key: "login:*", limit: 1/h, burst: 2}]`)
	p := serving(t, "--limits", limits)
	p.ready(t)
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), generate+"\n```\n\n```python\n")
	program, _, _ = strings.Cut(program, "```")
	proto, err := os.ReadFile("../../rpc/edge/quotaservice/quotaservicepb/quotaservice.proto")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "quotaservice.proto"), string(proto))
	write(t, filepath.Join(dir, "allow.py"), strings.ReplaceAll(program, "127.0.0.1:7934", p.edge)+
		"print(allow(\"login\", \"alice\"), allow(\"login\", \"alice\"), allow(\"login\", \"alice\", 3), allow(\"\", \"alice\"))\n")
	run := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(generate, "python3", python, 1)+" && "+python+" allow.py")
	run.Dir = dir
	out, err := run.CombinedOutput()
	const want = "OK\nOK REJECTED_TIMEOUT REJECTED_TOO_MANY_TOKENS_REQUESTED REJECTED_INVALID_REQUEST\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/rpc/usage"
)

// OwnerCost is what an owner takes when so many hosts use each of its keys.
type OwnerCost struct {
	Hosts int `json:"hosts_per_key"`
	Keys  int `json:"keys"`
	// ReportNs is CPU for a key in a host's report: decode, decide, encode.
	// Transport is not in it.
	ReportNs float64 `json:"report_ns"`
	// Bytes is memory for a key and host; KeyBytes for a key.
	Bytes    float64 `json:"bytes_per_pair"`
	KeyBytes float64 `json:"bytes_per_key"`
}

// ownerCost runs an Aggregator of so many pairs on virtual time.
func ownerCost(ctx context.Context, hosts, pairs int) (OwnerCost, error) {
	n := min(max(pairs/hosts, 1), 100_000)
	snapshot, err := workload.Snapshot(n, interval, algorithm.NameElastic)
	if err != nil {
		return OwnerCost{}, err
	}
	usages, err := reports(workload.Keys(n))
	if err != nil {
		return OwnerCost{}, err
	}
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("10.%d.%d.%d:7933", i>>16, i>>8&0xff, i&0xff)
	}
	before := held()
	a := aggregator.New(algorithm.Builtin(), snapshot)
	var watch stopwatch
	for round := range settling + rounds {
		if round == settling {
			watch = stopwatch{}
		}
		for i, name := range names {
			if err := ctx.Err(); err != nil {
				return OwnerCost{}, err
			}
			now := time.Duration(round)*interval + interval*time.Duration(i)/time.Duration(hosts)
			watch.time(func() {
				for _, u := range usages {
					if failed := decide(a, now, name, u); err == nil {
						err = failed
					}
				}
			})
		}
	}
	if err != nil {
		return OwnerCost{}, err
	}
	all := held() - before
	runtime.KeepAlive(a)
	runtime.KeepAlive(names)
	runtime.KeepAlive(usages)
	return OwnerCost{
		Hosts: hosts, Keys: n,
		ReportNs: watch.per(rounds * hosts * n), Bytes: all / float64(n*hosts), KeyBytes: all / float64(n),
	}, watch.err
}

var columns struct {
	usage  usage.Report
	grants usage.Grants
}

// decide is what an Aggregator does with a payload, at any time.
func decide(a *aggregator.Aggregator, now time.Duration, host string, payload *anypb.Any) error {
	if err := (usage.Columnar{}).DecodeReport(payload, &columns.usage); err != nil {
		return err
	}
	if err := a.Step(now, host, &columns.usage, &columns.grants); err != nil {
		return err
	}
	_, err := usage.Columnar{}.EncodeGrants(&columns.grants, columns.usage.Len())
	return err
}

// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"path"
	"slices"
	"strings"
)

// layer is a top-level folder with what it may import of its siblings, and of
// the folders in internal. The folders below it follow the same rule.
type layer struct {
	dir string
	may []string
	why string
}

var layers = []layer{
	{"ringpop", []string{"internal/conns", "internal/filewatch"}, "a ring knows hosts and keys, and serves any program"},
	{"algorithm", nil, "an algorithm is arithmetic, which the simulator and other engines run as it is"},
	{"dynamicconfig", []string{"internal/bucketkey", "internal/filewatch", "internal/spelling"}, "a rule is data, which every package may read because it needs none"},
	{"rpc", []string{"internal/breaker", "internal/bucketkey", "internal/conns", "internal/grpcconns", "internal/scopes"}, "the contract knows neither hosts nor owners"},
	{"limiter", []string{"rpc", "dynamicconfig", "internal/background", "internal/exactbucket", "internal/printable", "internal/processor", "internal/scopes"}, "limiting hosts never link an algorithm or an aggregator"},
	{"shadow", []string{"limiter", "dynamicconfig", "internal/background"}, "shadow runs two limiters, whatever rules them"},
	{"aggregator", []string{"rpc", "algorithm", "dynamicconfig", "internal/exactbucket", "internal/rowset", "internal/scopes", "internal/sum"}, "deciding hosts never link a limiter: deciders only answer"},
}

// rooms are folders with a rule of their own: a room, and the folders below it, may
// import these folders of the module, and those of the room.
var rooms = []layer{
	{"aggregator/internal/table", nil, "the table knows keys by their text only"},
	{"aggregator/internal/pace", nil, "pace knows only time"},
	{"aggregator/internal/guard", []string{"aggregator/internal/pace", "algorithm", "rpc"}, "calling other people's code needs no keys"},
	{"aggregator/internal/fence", nil, "the fence knows names and time"},
	{"aggregator/internal/excess", []string{"aggregator/internal/account", "algorithm", "dynamicconfig", "rpc", "internal/exactbucket"}, "metrics of what passes beyond limits know no keys"},
	{"aggregator/internal/hosts", []string{"aggregator/internal/account", "algorithm"}, "the numbers of hosts know no keys and no messages"},
	{"dynamicconfig/internal/glob", nil, "patterns know keys by their text only"},
	{"dynamicconfig/internal/message", []string{"internal/spelling"}, "messages are words"},
	{"dynamicconfig/internal/quantity", []string{"dynamicconfig/internal/message"}, "numbers with units know no fields"},
	{"dynamicconfig/internal/render", []string{"dynamicconfig/internal/quantity"}, "writing needs no rules: it is given fields"},
	{"dynamicconfig/rule", []string{"dynamicconfig/internal/glob", "dynamicconfig/internal/message", "dynamicconfig/internal/quantity", "dynamicconfig/internal/render"}, "what a rule says needs neither files nor checks"},
	{"dynamicconfig/internal/build", []string{"dynamicconfig/internal/glob", "dynamicconfig/internal/message", "dynamicconfig/internal/quantity", "dynamicconfig/internal/strictyaml", "dynamicconfig/rule"}, "checks and defaults are the same for files and for code"},
	{"cmd/headgate/internal/output", nil, "printing needs nothing of what is printed"},
	{"cmd/headgate/internal/adminclient", []string{"dynamicconfig", "dynamicconfig/history", "internal/admin/api/reply", "internal/admin/api/versions", "internal/command", "internal/printable", "internal/textfile"}, "calling a decider needs no command"},
	{"cmd/headgate/internal/inspect", []string{"cmd/headgate/internal/adminclient", "cmd/headgate/internal/output", "cmd/headgate/internal/runtest", "internal/admin/api/busiest", "internal/admin/api/events", "internal/admin/api/lasthour", "internal/admin/api/migrate", "internal/admin/api/reply", "internal/admin/api/versions", "internal/command", "internal/operators", "internal/printable", "internal/toptui", "limiter/explain"}, "what asks a running decider needs no files and no databases of limits"},
	{"cmd/headgate/internal/limits/limitsfile", []string{"algorithm", "cmd/headgate/internal/output", "dynamicconfig", "dynamicconfig/doormanconfig", "dynamicconfig/file", "dynamicconfig/quotaserviceconfig", "internal/filewatch", "limiter", "limiter/mesh"}, "a file of limits is checked without a daemon and without a database"},
	{"cmd/headgate/internal/limits/limitsdb", []string{"cmd/headgate/internal/adminclient", "cmd/headgate/internal/limits/limitsfile", "dynamicconfig", "dynamicconfig/history", "internal/command", "internal/daemon", "internal/spelling"}, "where limits are needs nothing of what is done with them"},
	{"cmd/headgate/internal/limits/read", []string{"cmd/headgate/internal/limits/limitsdb", "cmd/headgate/internal/limits/limitsfile", "cmd/headgate/internal/output", "dynamicconfig", "dynamicconfig/history", "internal/daemon", "internal/printable"}, "what reads limits cannot edit them"},
	{"cmd/headgate/internal/limits/rollout", []string{"cmd/headgate/internal/adminclient", "dynamicconfig", "dynamicconfig/edit", "dynamicconfig/history", "internal/admin/api/lasthour", "internal/admin/api/reply", "internal/printable", "internal/recent"}, "watching a change needs nothing of how it was made"},
	{"dynamicconfig/internal/fingerprint", []string{"dynamicconfig/internal/build", "dynamicconfig/rule"}, "what a configuration means needs no file"},
	{"dynamicconfig/internal/overlay", []string{"dynamicconfig/internal/build", "dynamicconfig/internal/glob", "dynamicconfig/internal/message", "dynamicconfig/rule"}, "overrides are put over what is stated, whenever that is"},
	{"dynamicconfig/internal/compose", []string{"dynamicconfig/internal/build", "dynamicconfig/internal/render", "dynamicconfig/rule"}, "a file is written from what it means, not from the file that was read"},
	{"dynamicconfig/internal/remedy", []string{"dynamicconfig/internal/message", "dynamicconfig/rule", "internal/spelling"}, "a remedy needs a name, and no configuration"},
	{"dynamicconfig/internal/brief", []string{"dynamicconfig/internal/quantity"}, "a few words of a value need no fields"},
	{"dynamicconfig/internal/subscribers", nil, "subscribers get changes of any type"},
	{"internal/sim/coroutine", nil, "jobs wait for anything"},
	{"internal/sim/timeline", []string{"internal/sim/traffic"}, "events come in order, whatever happens in them"},
	{"internal/sim/wire", []string{"internal/sim/scenario", "internal/sim/traffic"}, "a network does not read messages"},
	{"internal/sim/scenario/nodes", []string{"dynamicconfig", "internal/sim/traffic"}, "fields are read alike, whatever they mean"},
	{"internal/admin/api/reply", []string{"dynamicconfig", "dynamicconfig/history", "internal/daemon/callers", "internal/printable"}, "the forms of answers know no questions"},
	{"internal/admin/api/events", []string{"internal/admin/api/reply"}, "events are for people, and about anything"},
	{"rpc/usage/batches", []string{"rpc", "rpc/usage"}, "batches know no keys and no rules"},
	{"aggregator/internal/rules", []string{"aggregator/internal/account", "aggregator/internal/guard", "algorithm", "dynamicconfig"}, "what rules mean for keys needs no keys and no messages"},
	{"aggregator/internal/account/past", nil, "the past of a key is limits and times"},
	{"aggregator/internal/account", []string{"algorithm", "dynamicconfig", "rpc", "rpc/claims", "rpc/usage", "internal/exactbucket", "internal/rowset", "internal/sum"}, "an account is the state of one key, and knows no messages but their rows"},
}

// wholes may import every layer: they put the two halves together. The root
// package is the empty string, and headgatetest runs it in users' tests.
var wholes = []string{"", "cmd", "internal", "examples", "bench", "headgatetest"}

func layerOf(dir string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return l.dir == top(dir) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

// heavy is a library that most services which link headgate do not want.
type heavy struct {
	// prefix is that of its import paths.
	prefix string
	// name is what the last element of a package's path must contain for it
	// to import the library.
	name string
	// also lists folders that may import it whatever their name.
	also []string
	// draws is set for what draws pictures.
	draws bool
}

var heavies = []heavy{
	{"go.uber.org/yarpc", "yarpc", nil, false},
	// The daemon is a gRPC server: its services are of packages in rpc. etcd's client takes options of gRPC.
	{"google.golang.org/grpc", "grpc", []string{"rpc/rpcyarpc", "rpc/edge", "internal/daemon", "dynamicconfig/etcd"}, false},
	{"go.uber.org/fx", "fx", []string{""}, false},
	{"github.com/spf13/cobra", "cobra", []string{"cmd", "internal/command"}, false},
	{"charm.land/", "tui", []string{"cmd"}, false},
	{"github.com/charmbracelet/", "tui", []string{"cmd"}, false},
	{"github.com/hashicorp/memberlist", "gossip", nil, false},
	{"go.etcd.io/", "etcd", nil, false},
	{"database/sql", "sql", nil, false},
	{"modernc.org/sqlite", "sql", nil, false},
	{"github.com/jackc/pgx", "sql", nil, false},
	{"github.com/pressly/goose", "sql", nil, false},
	{"github.com/redis/go-redis", "redis", nil, false},
	{"github.com/prometheus/", "prometheus", nil, false},
	{"github.com/uber-go/tally/v4/prometheus", "prometheus", nil, false},
	{"go.opentelemetry.io/", "otel", nil, false},
	{"github.com/envoyproxy/go-control-plane", "rls", []string{"rpc/edge"}, false},
	{"github.com/fsnotify/fsnotify", "file", nil, false},
	{"gonum.org/", "plot", []string{"internal", "cmd"}, true},
	{"github.com/chromedp/", "chromedp", nil, false},
}

const heavyWhy = "heavy libraries stay in leaf packages named for them, so that a service links only those that it uses"

// daemon is the folder of the command that servers run.
const (
	daemon    = "cmd/headgate"
	daemonWhy = "servers run it: what draws pictures is for headgate-lab"
)

// heavyOf returns the heavy library that an import path belongs to.
func heavyOf(imported string) (heavy, bool) {
	i := slices.IndexFunc(heavies, func(h heavy) bool {
		return imported == h.prefix || strings.HasPrefix(imported, strings.TrimSuffix(h.prefix, "/")+"/")
	})
	if i < 0 {
		return heavy{}, false
	}
	return heavies[i], true
}

// allows says whether the package in dir may import the library. Examples
// are services of their own and may import anything.
func (h heavy) allows(dir string) bool {
	if top(dir) == "examples" || strings.Contains(path.Base(dir), h.name) {
		return true
	}
	return slices.ContainsFunc(h.also, func(also string) bool { return within(dir, also) })
}

// within reports whether dir is folder or below it; the root folder, "", has
// nothing below it.
func within(dir, folder string) bool {
	return dir == folder || folder != "" && strings.HasPrefix(dir, folder+"/")
}

// top is the first element of dir.
func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

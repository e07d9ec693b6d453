// SPDX-License-Identifier: Apache-2.0

package limitsfile

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/doormanconfig"
	"github.com/headgate/headgate/dynamicconfig/quotaserviceconfig"
)

// importers make limits of the configs of other rate limiters, by the names of these.
var importers = map[string]func(name string, data []byte) ([]byte, error){
	"doorman":      doormanconfig.Import,
	"quotaservice": quotaserviceconfig.Import,
}

// looks match the configs of other rate limiters, also those with mistakes, by a field at the top.
var looks = map[string]*regexp.Regexp{
	"doorman":      regexp.MustCompile(`(?m)^resources:`),
	"quotaservice": regexp.MustCompile(`(?m)^(namespaces|global_default_bucket):`),
}

// byHand matches the config of Envoy's ratelimit service, which has no importer.
var byHand = regexp.MustCompile(`(?m)^descriptors:`)

// HintImport says on w how to import a file that is the config of another rate limiter. It prints
// nothing about other files.
func HintImport(w io.Writer, file string, data []byte) {
	for _, from := range Importers() {
		if _, err := importers[from](file, data); err == nil {
			fmt.Fprintf(w, "%s is a config of %s: make limits of it with `headgate limits import --from %s %s -o limits.yaml`\n", file, from, from, file)
			return
		}
	}
	for _, from := range slices.Sorted(maps.Keys(looks)) {
		if looks[from].Match(data) {
			fmt.Fprintf(w, "%s looks like a config of %s: `headgate limits import --from %s %s` says what is wrong with it\n", file, from, from, file)
			return
		}
	}
	if byHand.Match(data) {
		fmt.Fprintf(w, "%s looks like a config of Envoy's ratelimit service: write its limits as rules; docs/config.md shows how, at \"From other files\"\n", file)
	}
}

// Importers are the names of the rate limiters whose configs can be imported.
func Importers() []string { return slices.Sorted(maps.Keys(importers)) }

// Importer makes limits of the config of the rate limiter with this name. It is nil if there is
// no such importer.
func Importer(name string) func(name string, data []byte) ([]byte, error) { return importers[name] }

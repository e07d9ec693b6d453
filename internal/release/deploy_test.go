// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../../examples/deploy/kubernetes/headgate.yaml"
	chart     = "../../examples/deploy/helm/headgate"
)

// kinds are the objects that there may be, as Kubernetes has them.
var kinds = map[string]func() any{
	"v1/ConfigMap":                       func() any { return new(corev1.ConfigMap) },
	"v1/Service":                         func() any { return new(corev1.Service) },
	"apps/v1/Deployment":                 func() any { return new(appsv1.Deployment) },
	"policy/v1/PodDisruptionBudget":      func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return new(networkingv1.NetworkPolicy) },
}

// objects are those in text, each of a kind that is known and without a field that is
// not.
func objects(t *testing.T, text string) (all map[string][]any) {
	t.Helper()
	all = make(map[string][]any)
	for _, one := range strings.Split("\n"+text, "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(one), &head); err != nil {
			t.Fatalf("%v\n%s", err, one)
		}
		if head.Kind == "" && strings.TrimSpace(one) == "" {
			continue
		}
		made := kinds[head.APIVersion+"/"+head.Kind]
		if made == nil {
			t.Fatalf("there is no %s/%s\n%s", head.APIVersion, head.Kind, one)
		}
		object := made()
		if err := yaml.UnmarshalStrict([]byte(one), object); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
		all[head.Kind] = append(all[head.Kind], object)
	}
	return all
}

// check looks at what Kubernetes itself would only say while it runs.
func check(t *testing.T, text string) {
	t.Helper()
	all := objects(t, text)
	if len(all) != len(kinds) {
		t.Errorf("there are %d kinds of objects, want %d", len(all), len(kinds))
	}
	deployment, ok := all["Deployment"][0].(*appsv1.Deployment)
	if !ok {
		t.Fatal("no deployment")
	}
	pod := deployment.Spec.Template
	for _, object := range all["Service"] {
		service, ok := object.(*corev1.Service)
		if !ok {
			t.Fatal("no service")
		}
		for label, value := range service.Spec.Selector {
			if pod.Labels[label] != value {
				t.Errorf("service %s selects %s=%s, and pods have %q", service.Name, label, value, pod.Labels[label])
			}
		}
		for _, port := range service.Spec.Ports {
			if name := port.TargetPort.StrVal; name != "" && !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
				t.Errorf("service %s: no port %s", service.Name, name)
			}
		}
	}
	container := pod.Spec.Containers[0]
	if s := container.SecurityContext; s == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation {
		t.Errorf("the container may do too much: %+v", s)
	}
	for _, mount := range container.VolumeMounts {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			t.Errorf("no volume %s", mount.Name)
		}
	}
}

func TestTheManifestsAreKubernetes(t *testing.T) {
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	check(t, string(text))
}

func TestTheChart(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"as it is": {},
		"with all": {
			"tlsSecret": "tls", "clusterTLSSecret": "cluster", "settings": map[string]any{"max_connections": 5, "lame_duck": "10s"},
			"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}},
			"affinity":  map[string]any{"podAntiAffinity": map[string]any{}},
			"operators": map[string]any{"callers": []any{map[string]any{"name": "ada", "tokens": []any{"sha256:00"}, "see": []any{"*"}}}},
			"policy":    map[string]any{"anyone": map[string]any{"use": []any{"*"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			linted := lint.AllWithKubeVersion(chart, values, "default", nil)
			for _, m := range linted.Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
			loaded, err := loader.Load(chart)
			if err != nil {
				t.Fatal(err)
			}
			all, err := chartutil.ToRenderValues(loaded, values, chartutil.ReleaseOptions{Name: "limits", Namespace: "default"}, chartutil.DefaultCapabilities)
			if err != nil {
				t.Fatal(err)
			}
			files, err := engine.Render(loaded, all)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			for _, path := range slices.Sorted(maps.Keys(files)) {
				if filepath.Ext(path) == ".yaml" {
					fmt.Fprintf(&text, "\n---\n%s", files[path])
				}
			}
			check(t, text.String())
			config, ok := objects(t, text.String())["ConfigMap"][0].(*corev1.ConfigMap)
			if !ok {
				t.Fatal("no settings")
			}
			var settings map[string]any
			if err := yaml.UnmarshalStrict([]byte(config.Data["headgate.yaml"]), &settings); err != nil || settings["edge"] != ":7934" {
				t.Errorf("%v\n%s", err, config.Data["headgate.yaml"])
			}
			for _, name := range []string{"operators", "policy"} {
				path, named := settings[name].(string)
				if _, want := values[name]; named != want {
					t.Errorf("%s: %v", name, settings[name])
				}
				text, mounted := config.Data[strings.TrimPrefix(path, "/etc/headgate/")]
				if mounted != named {
					t.Errorf("%s is %q, and the files are %v", name, path, slices.Sorted(maps.Keys(config.Data)))
				}
				var has map[string]any
				if err := yaml.UnmarshalStrict([]byte(text), &has); err != nil || named && !reflect.DeepEqual(has, values[name]) {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
			var limits struct {
				Limits []map[string]any `json:"limits"`
			}
			if err := yaml.UnmarshalStrict([]byte(config.Data["limits.yaml"]), &limits); err != nil || len(limits.Limits) != 1 {
				t.Errorf("%v\n%s", err, config.Data["limits.yaml"])
			}
		})
	}
}

// The Kubernetes provider plugin. The published module has no main package that builds on its own, because the schema
// it embeds is generated; ours embeds the schema that the build takes from the module and stamps with the version.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

func main() { provider.Serve("kubernetes", version.Version, schema, []byte("{}")) }

"""The product, one noun a file; data flows downwards and nothing points back up.

    stackfile   SHELL  a file on disk → the raw settings of one stack
    code        SHELL  the `code:` folder → the files that are shipped
    spec        PURE   raw settings → frozen models; field rules; JSON schema
    quantity    PURE   `500m`, `2Gi`
    rules       PURE   what the fields mean together
    plan        PURE   spec → Plan: every role, count, name and address resolved
    names       PURE   names, labels, DNS limits, content hashes
    tf_config   PURE   Plan → the cluster JSON and the env that tells each replica who it is
    manifests/  PURE   Plan → Kubernetes objects as plain dicts
    yaml_text   PURE  objects → YAML for people
    outputs     PURE   Plan → stack outputs
    deploy      SHELL  object → Pulumi resource, and the options policy; alone imports pulumi_kubernetes
    component   SHELL  TfCluster, the Pulumi component
    access      SHELL  which cluster a stack means, and whether it answers (probe.py asks it)
    api         SHELL  a client of its API server
    live        SHELL  what the cluster says of a training
    view        SHELL  how that is shown
    cli         SHELL  the `tfcluster` command

PURE modules import neither Pulumi nor a Kubernetes client; tests/unit/test_layers.py holds them to it.
"""

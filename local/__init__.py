"""A real single-machine Kubernetes and the tools it is made of: for `make up`, tests, and laptops without Docker."""

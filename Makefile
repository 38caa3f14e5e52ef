# The short way to everything. Each target is one or two calls of ./tfcluster, which work as well without make.

STACK ?= local
# The tests' Python, made when it is not there.
DEV = dev=$$(sh local/setup.sh --dev) && $$dev/bin/python

.PHONY: help up down preview test test-fast lint bench

help:            ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 14

up:              ## tools, cluster, image, pulumi up, live view until the training has ended
	./tfcluster local train --stack $(STACK)

preview:         ## what `make up` would change; needs no cluster
	./tfcluster local pulumi preview --stack $(STACK)

down:            ## pulumi destroy, then stop the embedded cluster if the stack was there
	./tfcluster local clear --stack $(STACK)

lint:            ## ruff and pyright
	$(DEV) -m ruff check .
	$(DEV) -m ruff format --check .
	$(DEV) -m pyright --pythonpath $$dev/bin/python

test-fast:       ## unit and program tests: no cluster, no root
	$(DEV) -m pytest tests/unit tests/program

test: lint       ## everything: also a real cluster and real trainings
	$(DEV) -m pytest tests

bench:           ## the numbers of docs/architecture.md
	$(DEV) -m tests.bench

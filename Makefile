# The short way to everything. Each target is one or two calls of ./tfcluster, which work as well without make.

STACK ?= local
PYTHON = $$(sh local/setup.sh --dev)/bin/python

.PHONY: help up down preview test test-fast lint bench

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *## /\1\t/p' Makefile | expand -t 14

up:              ## tools, cluster, image, pulumi up, live view until the training has ended
	./tfcluster local train --stack $(STACK)

preview:         ## what `make up` would change; needs no cluster
	./tfcluster local pulumi preview --stack $(STACK)

down:            ## pulumi destroy, then stop the cluster
	./tfcluster local clear --stack $(STACK)

lint:            ## ruff and pyright
	$(PYTHON) -m ruff check . && $(PYTHON) -m ruff format --check . && $(PYTHON) -m pyright

test-fast: lint  ## lint, unit and program tests: no cluster, no root
	$(PYTHON) -m pytest tests/unit tests/program

test: lint       ## everything: also a real cluster and real trainings
	$(PYTHON) -m pytest tests

bench:           ## the numbers of docs/architecture.md
	$(PYTHON) -m tests.bench

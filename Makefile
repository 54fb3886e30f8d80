# Each target is one line of a script below tools/; they make the environment themselves.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-runs test-cluster test-all lint format generate lock audit-packages images cluster-up cluster-demo \
	kind-up cluster-down clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make the environment (.venv), or use that of HANSA_PYTHON
	@tools/setup

demo: ## Watch five worlds make one agent better, within minutes
	@tools/setup --demo
	@tools/python -m hansa.cli.main demo --out runs/demo

test: setup ## Lint, types, unit tests, one run, one kill, the demo: minutes, and nothing but Python
	@tools/test

test-runs: ## All other tests that need no cluster: whole runs, kills, attacks, pages, browser
	@tools/setup --test
	@tools/test runs

test-cluster: ## Build a Kubernetes, and test the chart and the operator on it (Linux, root, Go)
	@tools/setup --test
	@tools/test cluster

test-all: ## All of these and the longest tests
	@tools/setup --test
	@tools/test all

lint: setup ## Check style and types
	@tools/test lint

format: setup ## Format the code
	@tools/python -m ruff check --fix-only --quiet .
	@tools/python -m ruff format .

generate: setup ## Write the files that are made from others: CRDs, chart, reference, attacks
	@tools/python -m hansa.cli.main crd federation > crds/federation.yaml
	@tools/python -m hansa.cli.main crd federationmember > crds/federationmember.yaml
	@tools/python tools/chart.py
	@tools/python tools/reference.py
	@tools/python tools/attacks.py

lock: setup ## Pin the newest versions in constraints.txt, and their hashes in requirements/
	@tools/setup --lock

audit-packages: setup ## Ask for known vulnerabilities of the images' packages, where a database answers
	@tools/python tools/audit_packages.py

images: ## Build the images of operator, client and server (Docker or buildah)
	@tools/images

cluster-up: setup ## A real Kubernetes here without Docker (Linux, root), with Hansa and an example
	@tools/try devkube

kind-up: ## The same on kind, which needs Docker
	@tools/try kind

cluster-demo: setup ## The same without Docker, or on the cluster of KUBECONFIG; follows the example
	@tools/try demo

cluster-down: ## Remove the clusters that these made
	@tools/try down

clean: ## Remove the environment and all caches; runs/ stays
	@rm -rf .cache .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

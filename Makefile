# Every target sets up what it needs first, so each works on a fresh clone. `make` alone lists them.

# The interpreter the environments are made with; any Python from 3.11 on.
PYTHON ?= python3
# `make demo CONTEXT=name` uses that cluster of your kubeconfig instead of starting one.
CONTEXT ?=

RUN := .venv/bin/python
PREPARE := $(PYTHON) devcluster/prepare.py --for

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-rest test-all check measures format catalogues docs test-unit test-newest test-docs test-fuzz test-packaging test-helm dist test-cluster test-browser test-faults test-storm test-chaos bench bench-page bench-actions bench-form bench-fit bench-freshness bench-progress bench-scale bench-truth constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Start Kubernetes and JupyterHub on http://127.0.0.1:8000 until Ctrl-C [CONTEXT=name of your own cluster]
	@$(PREPARE) demo $(if $(CONTEXT),--context $(CONTEXT))
	@$(RUN) -m devcluster.demo $(if $(CONTEXT),--context $(CONTEXT))

test: ## Run what each change has to pass: checks, unit tests on both JupyterHubs, docs, Helm, and a part of the rest
	@$(PREPARE) test
	@$(RUN) tests/run.py test

test-rest: ## Run what `make test` leaves out: most tests with a cluster or a browser, most hub images, most choices
	@$(PREPARE) test
	@$(RUN) tests/run.py rest

test-all: ## Run all of `make test` and `make test-rest`
	@$(PREPARE) test
	@$(RUN) tests/run.py test rest

check: ## Check format, lint, types, layers and sizes
	@$(PREPARE) check
	@$(RUN) tests/run.py check

measures: ## Print the packages' sizes, and the limits that tests/arch keeps
	@$(PREPARE) check
	@$(RUN) -m tests.arch.measures

format: ## Put the code into shape
	@$(PREPARE) check
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

catalogues: ## Bring the translations up to date with the messages in the code [LANGUAGE=code of a new one]
	@$(PREPARE) check
	@$(RUN) -m devcluster.catalogues $(LANGUAGE)

docs: ## Write docs/reference anew, and build the site into site/
	@$(PREPARE) check
	@$(RUN) -m docsite

test-unit: ## Run the unit tests on both JupyterHubs (no cluster)
	@$(PREPARE) unit
	@$(RUN) tests/run.py unit unit-hub5

test-newest: ## Run the unit tests on the newest pre-releases of JupyterHub, KubeSpawner and what both need
	@$(PREPARE) newest
	@$(RUN) tests/run.py unit-newest

test-docs: ## Check links, examples and generated pages of the documentation, and build its site
	@$(PREPARE) check
	@$(RUN) tests/run.py docs

test-fuzz: ## Send 20,000 right, wrong and nasty choices [EXAMPLES=so many others, new ones each time]
	@$(PREPARE) check
	@$(if $(EXAMPLES),GPUSPAWNER_FUZZ_EXAMPLES=$(EXAMPLES)) $(RUN) tests/run.py fuzz fuzz-rest

test-packaging: ## Build the wheel, install it elsewhere, run tests and render the form from there
	@$(PREPARE) packaging
	@$(RUN) tests/run.py packaging packaging-rest

dist: ## Build the source archive and the wheel into dist/, once, and test these files far from the sources
	@$(PREPARE) packaging
	@rm -rf dist
	@.venv/bin/uv build --quiet --build-constraints constraints/hub6.txt --out-dir dist .
	@cd dist && sha256sum -- *.tar.gz *.whl > SHA256SUMS
	@GPUSPAWNER_DIST=dist $(RUN) tests/run.py packaging packaging-rest

test-helm: ## Try helm-values against zero-to-jupyterhub's schema, our settings, `gpuspawner check` and Helm
	@$(PREPARE) helm
	@$(RUN) tests/run.py helm

test-cluster: ## Run the tests that need Kubernetes
	@$(PREPARE) cluster
	@$(RUN) tests/run.py cluster cluster-rest

test-browser: ## Run the tests that need Kubernetes and a browser
	@$(PREPARE) browser
	@$(RUN) tests/run.py browser browser-rest

test-faults: ## Break the API server in 33 ways and compare what the hub says of the cluster
	@$(PREPARE) cluster
	@$(RUN) tests/run.py faults

test-storm: ## Let 200 users with random rules start and stop servers 2,000 times [SEED=of the rules]
	@$(PREPARE) cluster
	@$(if $(SEED),GPUSPAWNER_STORM_SEED=$(SEED)) $(RUN) tests/run.py storm

test-chaos: ## Fail a cluster in a dozen ways and kill the hub while 100 users start servers [MINUTES=20] [SEED=of what is drawn] [FAULTS=part of their names]
	@$(PREPARE) cluster
	@$(if $(MINUTES),GPUSPAWNER_CHAOS_MINUTES=$(MINUTES)) $(if $(SEED),GPUSPAWNER_CHAOS_SEED=$(SEED)) $(if $(FAULTS),GPUSPAWNER_CHAOS_FAULTS="$(FAULTS)") $(RUN) tests/run.py chaos

bench: ## Measure form rendering, what the policy adds to a spawn, and spawns against plain KubeSpawner
	@$(PREPARE) bench
	@$(RUN) tests/run.py bench

bench-page: ## Measure what the form weighs and how fast it answers in a browser, beside KubeSpawner's
	@$(PREPARE) browser
	@$(RUN) -m bench page

bench-actions: ## Count clicks, keys and scroll steps from the loaded form to Start, beside KubeSpawner's form
	@$(PREPARE) browser
	@$(RUN) -m bench actions

bench-form: ## Measure what 500 open forms that refresh themselves cost the hub, and forms with a large profile_list
	@$(PREPARE) bench
	@$(RUN) -m bench form

bench-fit: ## Compare our fit with kube-scheduler's decisions [DECISIONS=10000] [SEED=number of the first case]
	@$(PREPARE) bench
	@$(RUN) -m bench fit $(if $(DECISIONS),--decisions $(DECISIONS)) $(if $(SEED),--seed $(SEED))

bench-freshness: ## Measure how soon the form shows that a GPU was taken, with 100 pod events a second
	@$(PREPARE) browser
	@$(RUN) -m bench freshness

bench-progress: ## Measure what 500 open progress pages cost the hub, beside KubeSpawner's
	@$(PREPARE) bench
	@$(RUN) -m bench progress

bench-scale: ## Measure what a large cluster costs the hub, beside what others do [NODES=5000] [PODS=100000]
	@$(PREPARE) bench
	@$(RUN) -m bench scale $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS))

bench-truth: ## Compare what the verdict says of 2,000 spawns with what the cluster does [SPAWNS=2000] [SEED=number of the first fleet]
	@$(PREPARE) truth
	@$(RUN) -m bench truth $(if $(SPAWNS),--spawns $(SPAWNS)) $(if $(SEED),--seed $(SEED))

constraints: ## Resolve the pins of both environments anew, to the newest versions
	@$(PREPARE) check
	@for pair in hub6 hub5; do \
	  .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
	    --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make constraints' \
	    pyproject.toml constraints/$$pair.in --output-file constraints/$$pair.txt || exit 1; \
	done

clean: ## Remove what the targets made in this folder (the cache of Kubernetes binaries stays)
	rm -rf .venv .venv-hub5 .venv-newest node_modules .run site dist build test-results .benchmarks \
	  .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

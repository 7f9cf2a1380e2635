# The front door. `make help` lists the targets; CMakePresets.json names the presets; CMake and Ninja do the work.
#
#   make demo                     build, then let the bundled model speak
#   make test PRESET=asan         the tests of another preset (release debug clang asan tsan emulated)
#   make test TESTS='-R unit/text'   some of them
#   GALLOP_ISA=amx make test PRESET=emulated   at a level of instruction sets, which is emulated (ref avx2 avx512 ... amx)
#   make test-all                 everything: what .ci/run does, and what it leaves to this (hours)
#   make test-real                trained models from the package index, against Hugging Face (not part of make test)
#   make test-clients             clients and measuring programs that others wrote, from the package index, against the server
#                                 (not part of make test)
#   make test-python              the Python package: its wheel, installed and tested in virtual environments
#   make test-python-asan         the same under the address sanitizer
#   make test-doors               the Python package inside llm, LangChain, lm_eval and others (not part of make test)
#   make test-pace                gallop.pace beside AMD PACE 1.3.0 from the package index (1.5 GB; not part of make test)
#   make test-vllm                Gallop inside vLLM, from the package index (3 GB; not part of make test)
#   make wheel                    the wheel of the Python package, and its sources, in build/wheel
#   make test-pjrt                the executor "pjrt" on a CPU plugin from the package index (not part of make test)
#   make test-mixed               300 mixed requests in every way, on more models (minutes; MIXED=qwen3: that one)
#   make pairs SEED=1 N=100000    N random requests with features beside each other, in company and alone: the number of differences
#   make test-sim                 a million simulated requests through scheduler, policies and cache
#   make test-grammar SUITE=F     the official JSON Schema test suite, a folder or archive F
#   make test-page                the server's page in a headless Chromium (tools/setup --browser installs one);
#                                 PICTURES=docs also makes the pictures of the documents
#   make bench-report             the goals of docs/PERFORMANCE.md, measured in one table (minutes; LAYERS=4 of each shape, QUICK=1)
#   make soak MINUTES=20          mixed load with clients that leave on a server of the bundled model: what must stay flat
#   make bench-peers PEERS=DIR    prefill and decode beside the engines that bench/peers/offline --setup DIR installed
#   make deb                      the Debian packages gallop, libgallop0, libgallop-dev and python3-gallop, in build/packages
#   make image                    an OCI image of the package gallop, beside the packages; no daemon is needed
#   make test-packages            installs, uses and removes the packages in a clean Debian, and starts the image
#   make install PREFIX=/opt/x    the program, gallop.h, the libraries, the pkg-config file and the man page; no test is built
PRESET ?= release
PREFIX ?= /usr/local
WERROR ?= OFF
JOBS   ?= $(shell nproc)
PROMPT ?= Once upon a time
TESTS  ?=
PARALLEL ?= 4
PICTURES ?=
MINUTES ?= 20
PEERS  ?= build/peers
MIXED ?= all
SEED   ?= 1
N      ?= 10000
LAYERS ?= 4
QUICK  ?=

.DEFAULT_GOAL := build
.PHONY: help test-pjrt setup configure configure-program program build demo test test-all test-real test-clients test-python test-python-asan test-doors test-pace test-vllm wheel test-mixed pairs test-sim test-page test-grammar test-packages soak lint bench bench-report bench-peers fmt map fuzz install deb image clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo 'targets: build program demo test test-all test-real test-clients test-python test-python-asan test-doors test-pace test-vllm wheel test-mixed pairs test-sim test-page test-grammar test-packages soak lint bench bench-report bench-peers fmt map fuzz install deb image clean'

setup:
	@tools/setup

CONFIGURE = cmake --preset $(PRESET) -DGALLOP_WERROR=$(WERROR) -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING

configure: setup
	@$(CONFIGURE) -DGALLOP_TESTS=ON >/dev/null

# Without the packages of the tests; the tests of a build folder that has them stay.
configure-program:
	@tools/setup --program
	@$(CONFIGURE) -DGALLOP_TESTS=AUTO >/dev/null

build: configure
	@cmake --build build/$(PRESET) -j $(JOBS)

# What is installed, and no test: a newcomer need not wait for them.
program: configure-program
	@cmake --build build/$(PRESET) -j $(JOBS) --target link_program gallop_installed

demo: configure-program
	@cmake --build build/$(PRESET) -j $(JOBS) --target link_program
	@tools/demo "$(PROMPT)"

test: build
	@ctest --test-dir build/$(PRESET) --parallel $(PARALLEL) --output-on-failure --no-tests=error --no-label-summary $(TESTS)

test-all:
	@bash .ci/run all

test-real: build
	@test/real/run

test-pjrt: build
	@status=0; test/pjrt/header || [ $$? = 77 ] || status=1; test/pjrt/run || [ $$? = 77 ] || status=1; exit $$status

test-clients: build
	@test/clients/run || [ $$? = 77 ]

test-python: build
	@test/python/run || [ $$? = 77 ]

# The library under the sanitizer is that of the tests (make test PRESET=asan), or is built here.
test-python-asan: PRESET = asan
test-python-asan: configure-program
	@cmake --build build/asan -j $(JOBS) --target gallop_installed
	@test/python/run asan || [ $$? = 77 ]

test-doors: build
	@test/doors/run || [ $$? = 77 ]

test-pace: build
	@test/python/pace/against/run || [ $$? = 77 ]

test-vllm: build
	@test/python/vllm/run || [ $$? = 77 ]

wheel: program
	@test/python/run wheel

test-mixed: build
	@GALLOP_MIXED=$(MIXED) build/$(PRESET)/test/test_engine_mixed

pairs: build
	@build/$(PRESET)/test/pairs $(SEED) $(N)

test-sim: build
	@GALLOP_SIM_REQUESTS=1000000 build/$(PRESET)/test/test_engine_simulation

test-page: build
	@GALLOP_SOURCE_DIR=$(CURDIR) GALLOP_BIN=$(CURDIR)/build/$(PRESET)/gallop PYTHONDONTWRITEBYTECODE=1 \
	    GALLOP_PICTURES=$(PICTURES) python3 test/page/test_page.py || [ $$? = 77 ]

# SUITE: a folder or archive of https://github.com/json-schema-org/JSON-Schema-Test-Suite.
test-grammar: build
	@for draft in draft2020-12 draft7; do \
	    test/compare/schema-suite $(SUITE) $$draft --gallop build/$(PRESET)/gallop || exit 1; done

# A small cache and queue, so that answers are put back and requests refused.
soak: build
	@bench/load --gallop build/$(PRESET)/gallop --serve models/demo --soak $(MINUTES) -- \
	    --max-num-queued-reqs 64 --kv-cache-memory 0.004 --block-size 16

lint: build
	@tools/setup --dev
	@tools/lint build/$(PRESET)

bench: build
	build/gallop bench
	build/gallop bench --kernels

bench-report: build
	@bench/report --gallop build/$(PRESET)/gallop --layers $(LAYERS) $(if $(QUICK),--quick)

# Says itself what is missing, and how to get it.
bench-peers: build
	@bench/peers/offline $(PEERS)

fmt:
	@tools/setup --dev
	@find src include test examples bench -name '*.[ch]' ! -path 'test/lint/*' 2>/dev/null | \
	    xargs sh -c 'tools/wrap "$$@" && clang-format-14 -i "$$@"' fmt

map:
	@tools/map

fuzz:
	@tools/fuzz

install: program
	@DESTDIR=$(DESTDIR) cmake --install build/$(PRESET) --prefix $(PREFIX)
	@deploy/after-install $(PREFIX) $(DESTDIR)

deb: program
	@tools/setup --packages
	@deploy/deb build/$(PRESET)

image: deb
	@deploy/image

test-packages: image
	@PYTHONDONTWRITEBYTECODE=1 python3 test/package/packages.py

clean:
	rm -rf build

# The front door. Every target sets up what it needs on a fresh Debian 12, and can be run again.
.PHONY: help build test demo soak fuzz bench format setup-build setup-test

help:
	@echo "make build    the tool: build/release/bin/pleiades"
	@echo "make demo     a 1 GiB table, real text, a cache a tenth of it: see it work (two minutes)"
	@echo "make test     everything that must hold before a change lands (tools/check says what)"
	@echo "make soak     ten minutes of random steps under random faults   (SOAK_SECONDS=600)"
	@echo "make fuzz     every fuzzer, ten minutes each                    (FUZZ_SECONDS=600)"
	@echo "make bench    the figures of docs/results on this machine"
	@echo "make format   clang-format over the tree"

build: setup-build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target pleiades_tool

test: setup-test
	@tools/check

demo: build
	@tools/demo

soak: setup-test
	@tools/soak $(or $(SOAK_SECONDS),600)

fuzz: setup-test
	@tools/fuzz $(or $(FUZZ_SECONDS),600)

bench: build
	@tools/bench

format: setup-test
	@tools/format

setup-build setup-test: setup-%:
	@tools/setup $*

# Compilations are cached where ccache is installed by then, also across clones.
export CMAKE_C_COMPILER_LAUNCHER ?= $(shell command -v ccache)
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(shell command -v ccache)
export CMAKE_CUDA_COMPILER_LAUNCHER ?= $(shell command -v ccache)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
# Python sets LC_CTYPE for what it starts; objects do not depend on it.
export CCACHE_SLOPPINESS := locale

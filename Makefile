# The front door. Every target sets up what it needs on a fresh Debian 12, and can be run again.
.PHONY: help build test demo soak fuzz bench format

help:
	@echo "make build    the tool: build/release/bin/pleiades"
	@echo "make demo     a 1 GiB table, real text, a cache a tenth of it: see it work (two minutes)"
	@echo "make test     everything that must hold before a change lands (tools/check says what)"
	@echo "make soak     ten minutes of random steps under random faults   (SOAK_SECONDS=600)"
	@echo "make fuzz     every fuzzer, ten minutes each                    (FUZZ_SECONDS=600)"
	@echo "make bench    the figures of docs/results on this machine"
	@echo "make format   clang-format over the tree"

build:
	@tools/setup build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target pleiades_tool

test:
	@tools/setup test
	@tools/check

demo: build
	@tools/demo

soak:
	@tools/setup test
	@tools/soak $(or $(SOAK_SECONDS),600)

fuzz:
	@tools/setup test
	@tools/fuzz $(or $(FUZZ_SECONDS),600)

bench: build
	@tools/bench

format:
	@tools/setup test
	@tools/format

# Compilations are cached where ccache is installed, also across clones.
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER := ccache
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CMAKE_CUDA_COMPILER_LAUNCHER := ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
endif

# The two commands of the README, and a few for those who work on Orrery.
# Each sets up what it needs; Meson does the rest.

BUILD ?= build
PREFIX ?= /usr/local
MESON_SETUP = meson setup --prefix $(PREFIX)

.PHONY: all demo test install sanitize tsan arm64 dist dist-check coverage fuzz bench accuracy abi format clean help

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

SMALL = examples/models/small_llama.yaml
demo: ## analyse a recording; measure this machine, predict a training run, make it, compare; then a cluster, and the best plan on one; pages in build/
	@tools/setup.sh build
	@$(MAKE) --no-print-directory all
	@$(BUILD)/src/cli/orrery demo --html $(BUILD)/demo.html
	@echo; echo "== What this machine does"
	@$(BUILD)/src/cli/orrery bench --quick -o $(BUILD)/machine.yaml --top 3
	@echo; echo "== A small Llama: what a step should take here, the run, and how far off that was"
	@$(BUILD)/src/cli/orrery train $(SMALL) --predict --machine $(BUILD)/machine.yaml --data examples/text --learning-rate 3e-3 \
		--plan seq=128,batch=4,micro_batch=4 --steps 300 --record $(BUILD)/run --export $(BUILD)/small_llama
	@$(BUILD)/src/cli/orrery generate $(BUILD)/small_llama 'The old miller ' --generated 110 --temperature 0.3 --top-p 0.9
	@echo; echo "== The same model on 1,024 GPUs that are not here"
	@$(BUILD)/src/cli/orrery simulate $(SMALL) --cluster h100_24k --plan dp=1024,seq=256,batch=8192 --html $(BUILD)/demo_cluster.html
	@echo; echo "== The best plan for a larger one, and how far from the best it can be"
	@$(BUILD)/src/cli/orrery explore llama3.1-70b --cluster dgx_h100_pod --batch 256 --seq 8k --html $(BUILD)/demo_explore.html
	@echo; echo "== A job that was run elsewhere"
	@$(BUILD)/src/cli/orrery demo llama3_405b_16k_gpus --html $(BUILD)/demo_405b.html

test: ## build and run every test; the last line counts them
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=enabled
	ninja -C $(BUILD)
	@python3 tools/run_tests.py $(BUILD)

install: all ## honours PREFIX and DESTDIR
	meson install -C $(BUILD) --no-rebuild

sanitize: ## every test under address and undefined-behaviour sanitizers, with clang
	@tools/setup.sh test
	@test -f build-sanitize/build.ninja || CC=clang $(MESON_SETUP) build-sanitize --buildtype=debugoptimized \
		-Db_sanitize=address,undefined -Db_lundef=false -Ddefault_library=static -Dwerror=true
	ninja -C build-sanitize
	@python3 tools/run_tests.py build-sanitize -t 3

# Clang 14's thread sanitizer does not start where the kernel scatters addresses over more than 28 bits.
FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)
tsan: ## what several threads do (reading, training, searching; io, team, engine, sim) under the thread sanitizer, with clang
	@tools/setup.sh test
	@test -f build-tsan/build.ninja || CC=clang $(MESON_SETUP) build-tsan --buildtype=debugoptimized \
		-Db_sanitize=thread -Db_lundef=false -Ddefault_library=static -Dtests=enabled
	$(FIXED_ADDRESSES) ninja -C build-tsan
	@$(FIXED_ADDRESSES) python3 tools/run_tests.py build-tsan -t 3 --suite threads --suite base --suite io --suite team --suite engine --suite sim

arm64: ## the unit tests, built for arm64 and run under qemu-user
	@tools/setup.sh build arm64
	@test -f build-arm64/build.ninja || $(MESON_SETUP) build-arm64 --cross-file tools/cross/aarch64.ini \
		-Dtests=enabled -Dwerror=true
	ninja -C build-arm64
	@python3 tools/run_tests.py build-arm64 -t 6 --suite unit

dist: ## a source archive of the last commit, Debian packages built from it, and checksums, in dist/
	@tools/setup.sh dist
	@tools/dist.sh dist

dist-check: ## install the packages of dist/ in a bare Debian and use them there; needs root
	@tools/setup.sh dist
	@tools/test_dist.sh dist

coverage: ## tests but those of whole processes, with coverage; the report is build-coverage/coverage.html
	@tools/setup.sh test coverage
	@test -f build-coverage/build.ninja || $(MESON_SETUP) build-coverage --buildtype=debug -Db_coverage=true \
		-Ddefault_library=static
	ninja -C build-coverage
	@python3 tools/run_tests.py build-coverage --no-suite e2e
	gcovr -r . --gcov-ignore-parse-errors --object-directory build-coverage -f src/ --html build-coverage/coverage.html --print-summary

FUZZ_SECONDS ?= 600
fuzz: ## each fuzzer for FUZZ_SECONDS (600), with libFuzzer and sanitizers
	@tools/setup.sh test
	@test -f build-fuzz/build.ninja || CC=clang $(MESON_SETUP) build-fuzz --buildtype=debugoptimized -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Ddefault_library=static
	ninja -C build-fuzz
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

bench: ## the figures of docs/benchmarks.md, as JSON lines
	@tools/setup.sh build
	@$(MAKE) --no-print-directory all
	@python3 bench/run.py $(BUILD)

accuracy: ## the tables of docs/accuracy.md, made again from the traces and facts of ../shared
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=enabled
	ninja -C $(BUILD)
	@python3 bench/accuracy.py $(BUILD)

abi: all ## list anew the symbols that the shared library exports (tests/abi/liborrery.symbols)
	tests/abi/run.sh --update $(BUILD)/liborrery.so

format: ## put the sources into the project's style
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-sanitize build-tsan build-arm64 build-coverage build-fuzz dist

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /make \1\t/p' Makefile | expand -t 16

$(BUILD)/build.ninja:
	@tools/setup.sh build
	$(MESON_SETUP) $(BUILD)

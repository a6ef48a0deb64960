# The front door: `make demo` trains a small language model on 4 MPI ranks, `make test` builds and tests everything.
# On Debian and Ubuntu both install missing packages first (INSTALL=no leaves that to you: a site's modules, Spack).
# Set a variable on the command line: make demo NP=2

NP          ?= 4#                  ranks of `make demo`
INSTALL     ?= yes#                no: install no packages
JOBS        ?=#                    compile jobs; empty leaves it to Ninja. Each takes up to 1 GB of memory
TEST_JOBS   ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))#  ranks that ctest runs at a time: two for each core, since they wait much
PREFIX      ?= /usr/local#         where `make install` puts Cohort; a folder for each version lets you keep several: /opt/cohort/0.1.0
PACKAGE_ARCH ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v3)#  -march of `make package`: the oldest CPU, here Haswell, Zen and newer
PRESET      ?= cpu#                what `make install` installs: cpu or cuda
CTEST_FLAGS ?=#                    more flags for ctest, as in CTEST_FLAGS="-R mesh"
CMAKE_FLAGS ?=#                    more flags for cmake of every preset, as in CMAKE_FLAGS=-DCOHORT_WARNINGS_AS_ERRORS=ON
DEBUG_TARGETS ?=#                  what `make debug-build` and `debug-test` build; empty: all. With unit_tests, give CTEST_FLAGS="-L unit"
LINT_FILES  ?= --changed#          which C++ sources `make lint` looks at: --changed (since origin/main), --changed BASE or --all
GPU_FLAGS   ?=#                    more flags for cmake of the preset cuda, as in GPU_FLAGS=-DCMAKE_CUDA_ARCHITECTURES=80
NODES       ?=#                    nodes of `make cluster`, up to 4; empty: 2
CLUSTER_FLAGS ?=#                  more flags for `tools/cluster up`, as in CLUSTER_FLAGS=--plain
BENCH_FLAGS ?=#                    more flags for `cohort bench step`, as in BENCH_FLAGS="--layers 4 --width 128"

# Flags of every mpirun that make starts. --oversubscribe: a laptop may have fewer cores than ranks. --bind-to none: else Open MPI may
# bind all ranks to the same core. Open MPI refuses to run as root unless told so; containers have no other user.
MPIRUN_FLAGS ?= --oversubscribe --bind-to none $(if $(filter 0,$(shell id -u)),--allow-run-as-root)

COHORT  = build/cpu/cohort
VERSION = $(shell sed -n "s/^project.cohort VERSION \([0-9.]*\).*/\1/p" CMakeLists.txt)

.DEFAULT_GOAL := build
.NOTPARALLEL:  # packages come before build; Ninja brings the parallelism
.PHONY: build program slurm-programs demo stories python module-systems test test-slurm debug-build debug-test tsan-test coverage gpu-test
.PHONY: cluster cluster-down bench lint compile-commands format format-check hooks
.PHONY: install package dist packages packages-format packages-lint packages-coverage packages-cluster packages-book packages-browser docs book help clean

build: ## Configure and build the preset `cpu` into build/cpu (this is what plain `make` does)
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu $(addprefix -j,$(JOBS))

program: ## Configure and build only build/cpu/cohort, without the tests
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu --target cohort $(addprefix -j,$(JOBS))

demo: packages stories ## Train a small model on stories across 4 ranks (NP); shows the loss, its floor and a sample
	@# --quiet keeps away what Open MPI adds to our messages; it would also hide why the ranks cannot be started
	mpirun --quiet $(MPIRUN_FLAGS) -np $(NP) $(COHORT) train inputs/demo.toml --overwrite || \
	  { code=$$?; echo "mpirun ended with $$code. If no message says why: mpirun $(strip $(MPIRUN_FLAGS)) -np $(NP) $(COHORT) topo"; exit $$code; }
	@printf '%s\n' '' 'What next:' \
	  '  $(COHORT) generate runs/demo --prompt "One day" --tokens 300    let the model write' \
	  '  $(COHORT) ckpt show runs/demo                                   what is in its checkpoint' \
	  '  mpirun $(strip $(MPIRUN_FLAGS)) -np 4 $(COHORT) prove inputs/demo.toml --layout dp=2,tp=2' \
	  '                                                                      two ways to split it: equal to one rank?' \
	  '  docs/first-run.md                                                   the tour; docs/data.md for your own text'

stories: program ## Write the corpus that the demo and the labs train on into data/
	mkdir -p data
	$(COHORT) data synth stories --out data/stories.txt --bytes 4MiB --overwrite
	$(COHORT) data prepare --input data/stories.txt --out data/stories.h5 --tokenizer bpe --vocabulary 1024 --overwrite

# What comes over the network comes while the compilers work.
test: packages ## Build and run all tests except those that need SLURM
	@mkdir -p build
	@$(MAKE) --no-print-directory python module-systems >build/downloads.log 2>&1 & \
	  $(MAKE) --no-print-directory build; built=$$?; wait; cat build/downloads.log; exit $$built
	ctest --test-dir build/cpu -LE slurm -j$(TEST_JOBS) --output-on-failure --timeout 300 --no-tests=error $(CTEST_FLAGS)

# One at a time: they switch nodes off. The cluster is brought up for them, unless it is up already.
test-slurm: packages packages-cluster slurm-programs ## Build and run the tests on a real SLURM of two nodes on this machine
	tools/cluster run -- ctest --test-dir build/cpu -L slurm -j1 --output-on-failure --timeout 600 --no-tests=error $(CTEST_FLAGS)

slurm-programs: program
	cmake --build --preset cpu --target verify_run $(addprefix -j,$(JOBS))

cluster: packages-cluster ## Bring up a SLURM cluster on this machine (NODES); then `. build/cluster/env` and sbatch, srun, squeue
	@tools/cluster up $(addprefix --nodes=,$(NODES)) $(CLUSTER_FLAGS)

cluster-down: ## Shut that cluster down, with all its jobs
	@tools/cluster down

# Without it the tests that need it are skipped, or fail where COHORT_REQUIRE_PYTHON=1.
python: ## Create the Python environment build/python for the tests against PyTorch, transformers and safetensors
	@INSTALL=$(INSTALL) tools/python-environment || true

# Without them the tests that need them are skipped, or fail where COHORT_REQUIRE_MODULES=1.
module-systems: ## Unpack Lmod and Environment Modules into build/module-systems for the tests of the modulefiles
	@INSTALL=$(INSTALL) tools/module-systems || true

debug-build: packages ## Build with the address and undefined-behaviour sanitizers into build/debug
	cmake --preset debug $(CMAKE_FLAGS)
	cmake --build --preset debug $(if $(DEBUG_TARGETS),--target $(DEBUG_TARGETS)) $(addprefix -j,$(JOBS))

# Leaks are not looked for: Open MPI and HDF5 keep memory until the process ends, and their reports would bury ours. Libraries that a test
# loads before the program come before the sanitizer's, which it would refuse.
debug-test: export ASAN_OPTIONS = detect_leaks=0:verify_asan_link_order=0
debug-test: export UBSAN_OPTIONS = print_stacktrace=1
debug-test: debug-build ## Build with the address and undefined-behaviour sanitizers and run all tests
	ctest --test-dir build/debug -LE slurm -j$(TEST_JOBS) --output-on-failure --timeout 600 --no-tests=error $(CTEST_FLAGS)

# tools/tsan.supp says which reports are about libraries, and why.
tsan-test: export TSAN_OPTIONS = suppressions=$(CURDIR)/tools/tsan.supp:ignore_noninstrumented_modules=1:second_deadlock_stack=1
tsan-test: packages ## Build with the thread sanitizer and run the tests with the label `threads`
	cmake --preset tsan $(CMAKE_FLAGS)
	cmake --build --preset tsan --target threaded_tests $(addprefix -j,$(JOBS))
	ctest --test-dir build/tsan -L threads -j$(TEST_JOBS) --output-on-failure --timeout 600 --no-tests=error $(CTEST_FLAGS)

# What a test that fails did not run counts as not covered, and is told below. Ranks that are killed count nothing.
coverage: packages packages-coverage ## Run the tests (CTEST_FLAGS) counting lines: lists the least covered files, pages in build/coverage/html
	cmake --preset coverage $(CMAKE_FLAGS)
	cmake --build --preset coverage $(addprefix -j,$(JOBS))
	find build/coverage -name '*.gcda' -delete
	ctest --test-dir build/coverage -LE slurm -j$(TEST_JOBS) --timeout 600 --no-tests=error $(CTEST_FLAGS) || echo "coverage: some tests failed"
	tools/coverage build/coverage

# Kokkos_ROOT names a Kokkos with the CUDA backend (docs/gpus.md). The tests that several ranks share run on as many GPUs.
gpu-test: ## Build the preset `cuda` and run the tests that need NVIDIA GPUs (GPU_FLAGS for cmake, Kokkos_ROOT)
	@command -v nvcc >/dev/null || { echo "gpu-test: nvcc is not on the PATH: install the CUDA toolkit or load its module" >&2; exit 1; }
	@nvidia-smi -L || { echo "gpu-test: nvidia-smi lists no GPU on this machine" >&2; exit 1; }
	cmake --preset cuda $(CMAKE_FLAGS) $(GPU_FLAGS)
	cmake --build --preset cuda $(addprefix -j,$(JOBS))
	ctest --test-dir build/cuda -L gpu -j1 --output-on-failure --timeout 300 --no-tests=error $(CTEST_FLAGS)

bench: program ## Measure a training step on one core: tokens/s, GFLOP/s, share of the machine's matrix-product peak
	OMP_NUM_THREADS=1 $(COHORT) bench step $(BENCH_FLAGS)

lint: packages-lint compile-commands ## Check the C++ sources that changed (LINT_FILES): formatting, clang-tidy, each compiled alone by clang with libc++
	tools/lint format
	tools/lint compile $(LINT_FILES)
	tools/lint tidy $(LINT_FILES)

# Nothing of it is built: a database with an entry for each source, which unity builds have not, where editors look for it.
compile-commands: ## Write compile_commands.json, by which editors and clangd know how each source is compiled
	@cmake --preset compile-commands $(CMAKE_FLAGS) >/dev/null
	@ln -sf build/compile-commands/compile_commands.json compile_commands.json

format: packages-format ## Format all C++ sources in place
	tools/lint format --fix

format-check: packages-format ## Fail if a C++ source is not formatted
	tools/lint format

hooks: ## Let git check formatting and the tree's rules before a commit, clang-tidy before a push (`git config --unset core.hooksPath` ends it)
	git config core.hooksPath tools/hooks

# Tests fail while these files differ from what program and sources say.
docs: program ## Write what the documentation takes from program and sources: docs/reference, and docs/house.svg, the picture of the modules
	mkdir -p docs/reference
	for page in run-file commands exit-codes; do $(COHORT) reference $$page > docs/reference/$$page.md || exit 1; done
	tools/draw_house.py

# Nothing is compiled for it. A dead link in a page fails it.
book: packages-book ## Make one site of handouts, questions, course and reference in build/book, which needs no network
	tools/book build/book

# DESTDIR, if set, goes before the prefix, as makers of packages need it. The tests are not built.
install: ## Build the preset PRESET and install it below PREFIX, with modulefiles, run files and job templates
	cmake --preset $(PRESET) $(CMAKE_FLAGS)
	cmake --build --preset $(PRESET) --target cohort $(addprefix -j,$(JOBS))
	DESTDIR="$(DESTDIR)" cmake --install build/$(PRESET) --prefix "$(PREFIX)"

# Built anew for the oldest CPU that it is to run on (PACKAGE_ARCH), not for this machine's. Installed by: apt install ./build/cohort_*.deb
package: packages ## Make a Debian package of the program, build/cohort_VERSION_ARCHITECTURE.deb
	cmake --preset cpu -B build/package -DCOHORT_ENABLE_TESTS=OFF -DCOHORT_ARCH=$(PACKAGE_ARCH)
	cmake --build build/package --target cohort $(addprefix -j,$(JOBS))
	cpack --config build/package/CPackConfig.cmake -B build/package/cpack
	rm -f build/cohort_*.deb && cp build/package/cpack/cohort_*.deb build

dist: ## Make a tarball of the sources as committed, build/cohort-VERSION.tar.gz
	mkdir -p build
	git archive --prefix=cohort-$(VERSION)/ --output=build/cohort-$(VERSION).tar.gz HEAD

packages: ## Install missing packages of Debian, Ubuntu or Homebrew (through sudo when not root)
ifneq ($(INSTALL),no)
	@tools/install-dependencies build
endif

# What tools/lint does not find it says.
packages-format:
ifneq ($(INSTALL),no)
	@tools/install-dependencies format
endif
	@INSTALL=$(INSTALL) tools/lint-environment || true

packages-lint:
ifneq ($(INSTALL),no)
	@tools/install-dependencies lint
endif
	@INSTALL=$(INSTALL) tools/lint-environment || true

packages-coverage:
ifneq ($(INSTALL),no)
	@tools/install-dependencies coverage
endif

packages-book:
ifneq ($(INSTALL),no)
	@tools/install-dependencies book
endif

packages-browser:
ifneq ($(INSTALL),no)
	@tools/install-dependencies browser
endif

packages-cluster:
ifneq ($(INSTALL),no)
	@tools/install-dependencies cluster
endif

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

clean: cluster-down ## Remove the build folders (data/ and runs/ stay); shuts down the cluster, which is in them
	rm -rf build

# PGXS installs and tests; cargo builds.
#
#   make [install | installcheck | clean | uninstall | dist] PG_CONFIG=/path/to/pg_config
#
# Each major has its own build under target/, so that several live side by side. Nothing is compiled through PGXS, whose
# flags and LLVM step are those of the compiler that built PostgreSQL. `make installcheck` needs a running server that has
# the library preloaded: dev/check makes one.

EXTENSION = pg_vault_tde
DATA = $(wildcard sql/pg_vault_tde--*.sql)

PG_CONFIG ?= pg_config
CARGO ?= cargo
pg_major := $(shell $(PG_CONFIG) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
target = target/pg$(pg_major)
library = $(target)/release/libpg_vault_tde.so
run_cargo = PG_CONFIG='$(PG_CONFIG)' CARGO_TARGET_DIR='$(target)' $(CARGO)

# Only what is there: PGXS runs a suite if its variable is not empty.
REGRESS = $(sort $(basename $(notdir $(wildcard regress/sql/*.sql))))
ISOLATION = $(sort $(basename $(notdir $(wildcard regress/specs/*.spec))))
TAP_TESTS = $(if $(wildcard t/*.pl),1)
REGRESS_OPTS = --inputdir=regress --outputdir=$(target)/regress
ISOLATION_OPTS = --inputdir=regress --outputdir=$(target)/isolation
REGRESS_PREP = output-directories

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

all: build
install: install-library
uninstall: uninstall-library
clean: clean-build

.PHONY: build unit lint dist install-library uninstall-library clean-build output-directories

# Only cargo knows what is out of date. But `sudo make install` after `make` installs what that user built: root may have no
# cargo, and must not leave files of its own in target/.
build:
	@if [ -e $(library) ] && [ ! -O $(library) ]; then \
		echo 'not rebuilt, since it belongs to another user: $(library)'; \
	else \
		echo 'cargo build --release --locked # for PostgreSQL $(pg_major)'; \
		$(run_cargo) build --release --locked; \
	fi

# Tests that need no server. (--release here and below, since all three then share one build of the dependencies.)
unit:
	$(run_cargo) test --release --locked $(if $(UNIT_TESTS),-- $(UNIT_TESTS))

lint:
	$(run_cargo) clippy --release --all-targets --locked -- -D warnings

# The source archive, with vendored crates.
dist:
	dev/dist

# The directory, put first in dynamic_library_path, makes stock subscribers' pgoutput go through us.
install-library: build
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)/pg_vault_tde'
	$(INSTALL_SHLIB) $(library) '$(DESTDIR)$(pkglibdir)/pg_vault_tde.so'
	ln -sf ../pg_vault_tde.so '$(DESTDIR)$(pkglibdir)/pg_vault_tde/pgoutput.so'

uninstall-library:
	rm -f '$(DESTDIR)$(pkglibdir)/pg_vault_tde.so'
	rm -rf '$(DESTDIR)$(pkglibdir)/pg_vault_tde'

clean-build:
	rm -rf '$(target)'

output-directories:
	$(MKDIR_P) '$(target)/regress' '$(target)/isolation'

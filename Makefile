# Two commands matter: `make demo` shows what ectype is for, `make test` runs everything.

PYTHON_IN_VENV = .venv/bin/python

.PHONY: demo test unit lint setup clean

demo: setup
	@.venv/bin/ectype demo

setup:
	@bash scripts/setup.sh

# The tests come last, so that their closing line is the last thing one sees.
test:
	@bash scripts/setup.sh --tests
	@$(MAKE) --no-print-directory lint
	@$(PYTHON_IN_VENV) -m pytest

# Only what needs no Slurm, no container, no Megatron and no minutes.
unit:
	@$(PYTHON_IN_VENV) -m pytest -m "not (slurm or apptainer or megatron or mpi or vllm or slow)"

lint:
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/pyright

# Runs are yours: they stay.
clean:
	rm -rf .venv .venv-vllm build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

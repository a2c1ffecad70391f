"""What ectype adds to vLLM's workers: take the policy's weights from a folder, and know which version they are.

vLLM imports this file in its own environment, where ectype is not installed. `load_policy` and `policy_version` are
called through vLLM's `collective_rpc`, in every worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open


class PolicyWorker:
    """Mixed into vLLM's worker class. `_policy_version` is None while the weights are nobody's: before the first load,
    and if a load fails half-way."""

    reload_weights: Any
    """vLLM's own, which undoes and repeats what its kernels did to the weights after the first load."""
    model_runner: Any
    _policy_version: int | None = None

    def load_policy(self, folder: str, version: str) -> dict[str, int]:
        """Replace all weights by those of the safetensors files in `folder`. Returns the version and the number of
        tensors that were read."""
        self._policy_version = None
        read = 0

        def weights() -> Iterator[tuple[str, Any]]:
            nonlocal read
            for file in sorted(Path(folder).glob("*.safetensors")):
                with safe_open(str(file), "pt") as content:
                    for name in content.keys():  # noqa: SIM118
                        read += 1
                        yield name, content.get_tensor(name)

        self.reload_weights(weights_iterator=weights())
        self._tie_again()
        self._policy_version = int(version)
        return {"version": self._policy_version, "tensors": read}

    def _tie_again(self) -> None:
        """Give a tied output layer the new embedding: vLLM loads only the embedding again, and on a CPU the output
        layer multiplies with a packed copy of the old one."""
        model: Any = self.model_runner.get_model()
        if getattr(model.config, "tie_word_embeddings", False):
            head = model.lm_head.tie_weights(model.model.embed_tokens)
            head.quant_method.process_weights_after_loading(head)

    def policy_version(self) -> dict[str, int | None]:
        """Version of the weights that are loaded; None when they are not a policy's."""
        return {"version": self._policy_version}

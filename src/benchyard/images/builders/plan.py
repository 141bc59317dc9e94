"""A build that is ready to begin: its Dockerfile was read, its bases are in the engine's storage."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.images.build import Recipe
from benchyard.images.builders.context import add_context
from benchyard.images.dockerfile import Dockerfile, Instruction
from benchyard.images.heredocs import Rewriter, Rewriting


@dataclass(frozen=True)
class Base:
    """An image that a Dockerfile names, as the engine has it."""

    name: str
    """What the engine calls it."""
    identity: str
    """The same for the same content."""
    env: Mapping[str, str]
    alias: str | None = None
    """The name of our image, where an alias put it in place of another."""


@dataclass(frozen=True)
class Plan:
    """What is to be built."""

    recipe: Recipe
    dockerfile: Dockerfile
    """With the engine's names for its bases."""
    bases: Mapping[str, Base]

    def key(self) -> str:
        """The same for builds that would give the same: of secrets only the names count, as for the cache."""
        recipe = self.recipe
        bases = {reference: base.identity for reference, base in self.bases.items()}
        asked = [recipe.dockerfile, sorted(recipe.args.items()), sorted(recipe.secrets), bases]
        door = recipe.door.rules if recipe.door else None
        around = [recipe.network.value, door, dataclasses.astuple(recipe.limits)]
        digest = hashlib.sha256(json.dumps([asked, around], sort_keys=True).encode())
        add_context(digest, recipe.context)
        return digest.hexdigest()

    def changes(self, files: Path, name: str, *, knows_heredocs: bool) -> Mapping[Instruction, Sequence[str]]:
        """New lines for what the engine is not to read as it stands; here-documents go to `files`.

        The engine knows that folder by `name`.
        """
        secrets = tuple(sorted(self.recipe.secrets))
        rewriter = Rewriter(self.dockerfile, Rewriting(files, self.recipe.args, secrets, name))
        environments = {base.name: base.env for base in self.bases.values()}
        rewritten = rewriter.run(environments) if secrets or not knows_heredocs else {}
        moved = {each: [each.text] for each in self.dockerfile.instructions if self._is_renamed(each)}
        return {**moved, **rewritten}

    def _is_renamed(self, instruction: Instruction) -> bool:
        names = [base.name for base in self.bases.values()]
        return not instruction.heredocs and any(name in instruction.text for name in names)

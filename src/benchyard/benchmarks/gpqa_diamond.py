"""GPQA Diamond: hard questions of biology, physics and chemistry, with four options each."""

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.question_sets import Question
from benchyard.benchmarks.sources.base import HubDataset, SourceFile
from benchyard.benchmarks.sources.records import Row
from benchyard.errors import UsageError

_SHA256 = "41d1213cd7a4998605a26c2798500652572007161b3a92817ba46b35befcd305"
_SIZE = 1_373_492
_NAME = "gpqa_diamond.csv"
_CANARY = re.compile(r"(?i)gpqa:[0-9a-f]{4}:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_ANSWER = "answer.txt"
_LETTERS = "ABCD"
_COLUMNS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")

# From openai/simple-evals (common.py, QUERY_TEMPLATE_MULTICHOICE), MIT licence, Copyright (c) 2024 OpenAI.
_TEMPLATE = """\
Answer the following multiple choice question. The last line of your response should be of the following \
format: 'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.

{question}

A) {a}
B) {b}
C) {c}
D) {d}"""
_TAIL = """

Write your response to the file `{path}`. Only its `Answer: $LETTER` is graded, and only the first one in it.
"""


class GpqaDiamondBenchmark(PublicBenchmark):
    """The questions, with options shuffled by a seed; each scenario states the order."""

    about = BenchmarkFacts(
        title="GPQA Diamond",
        summary="198 questions of biology, physics and chemistry that searching the web hardly helps with",
        size=198,
        licence="CC BY 4.0; its authors ask not to show questions in plain text or images online",
        citation="Rein et al., GPQA: A Graduate-Level Google-Proof Q&A Benchmark, arXiv:2311.12022",
        home="https://huggingface.co/datasets/Idavidrein/gpqa",
        aliases=("GPQA", "Idavidrein/gpqa", "gpqa_diamond"),
        needs=("a token of a Hugging Face account that accepted the terms (HF_TOKEN)",),
        not_for_publication=True,
    )
    source = HubDataset(
        "Idavidrein/gpqa",
        "633f5ee89ab8ad4522a9f850766b73f62147ffdd",
        (SourceFile(_NAME, _SHA256, _SIZE),),
        gated=True,
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        path = _file(data)
        with path.open("rb") as file:
            official = hashlib.file_digest(file, "sha256").hexdigest() == _SHA256
        if not official and path.name == _NAME:
            yield BrokenItem(
                path.name,
                f"{path}: this is not the official file: its sha256 is not {_SHA256}. Its questions are "
                "imported as unofficial ones; fetch it again, or give a file of your own another name",
                is_note=True,
            )
        # As in simple-evals: one generator for all rows, and one draw for each row, even if it is not used.
        generator = random.Random(options.seed)  # noqa: S311  it hides nothing
        seen: set[str] = set()
        for found in question_sets.items(path):
            shuffle = _Shuffle(options.seed, tuple(generator.sample(range(4), 4)), official)
            item = found if isinstance(found, BrokenItem) else _item(path, found, shuffle)
            if isinstance(item, Question) and item.name in seen:
                item = BrokenItem(item.name, f"{path}: two rows have this `Record ID`")
            if isinstance(item, Question):
                seen.add(item.name)
            yield item if isinstance(item, BrokenItem) else question_sets.draft(item, options)


@dataclass(frozen=True)
class _Shuffle:
    seed: int
    order: tuple[int, ...]
    """Column of the file that each option is from; 0 is the right one."""
    official: bool


def _file(data: Path) -> Path:
    files = question_sets.data_files(data)
    named = [path for path in files if path.name == _NAME]
    files = named or files
    if len(files) > 1:
        raise UsageError(f"{data}: there are several data files in it; give the one with the questions")
    return files[0]


def _item(path: Path, found: tuple[int, Row], shuffle: _Shuffle) -> Question | BrokenItem:
    number, row = found
    try:
        question = question_sets.text(row, "Question")
        options = [question_sets.text(row, name) for name in _COLUMNS]
        if any(_CANARY.search(option) for option in (question, *options)):
            raise UsageError("its canary stands in the question or an option, where models would see it")
    except UsageError as error:
        # Leave out the question's text: it must not be shown.
        return BrokenItem(f"row {number}", f"{path}: row {number}: {error.message}")
    shown = [options[column] for column in shuffle.order]
    letter = _LETTERS[shuffle.order.index(0)]
    record = str(row.get("Record ID") or number)
    seeded = f"-seed{shuffle.seed}" if shuffle.seed else ""
    prompt = _TEMPLATE.format(question=question, a=shown[0], b=shown[1], c=shown[2], d=shown[3])
    return Question(
        name=f"gpqa-diamond/{record}{seeded}",
        prompt=prompt + _TAIL.format(path=f"{question_sets.PLACE}/{_ANSWER}"),
        answer_path=_ANSWER,
        scorer="gpqa_scorer",
        expected={"letter": letter, "order": list(shuffle.order), "seed": shuffle.seed},
        reference=f"Answer: {letter}\n",
        metadata={
            "category": row.get("High-level domain"),
            "subdomain": row.get("Subdomain"),
            "option_order": "".join(map(str, shuffle.order)),
            "seed": shuffle.seed,
            "official_data": "yes" if shuffle.official else "no",
        },
    )

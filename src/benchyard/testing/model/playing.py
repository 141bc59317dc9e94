"""Which step of which script answers a request."""

import json
import re
from collections import Counter
from dataclasses import dataclass

from benchyard.testing.model import tools
from benchyard.testing.model.answers import Answer, Said, answer
from benchyard.testing.model.asked import Asked
from benchyard.testing.model.scripts import Script, Scripts, Step, scripts, squeezed

TITLE = "A short title"
"""The answer to a request that offers no tools: agents ask so for titles, and for which model to take."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Cue:
    """What is to be done about a request."""

    step: Step
    """A fault, or what the answer was made of."""
    answer: Answer
    """Of a fault: the answer it spoils."""
    script: str = ""
    is_title: bool = False


class Player:
    """Plays scripts. All it remembers is how many answers it gave, and which faults have happened to them."""

    def __init__(self, given: Scripts) -> None:
        found = sorted(scripts(given), key=lambda script: script.is_default)
        self._scripts = [(script, squeezed(script.match or "")) for script in found]
        self._answers = 0
        self._calls = 0
        self._happened: Counter[tuple[_Key, int, int]] = Counter()
        self._spoiled: set[str] = set()
        """Calls in answers that broke off: some agents keep them, with a result that says so."""

    def reset(self) -> None:
        """Forget what has happened."""
        self._happened.clear()
        self._spoiled.clear()
        self._answers = self._calls = 0

    def cue(self, asked: Asked, dialect: str) -> Cue:
        """What comes next in the conversation that a request carries."""
        script = self._script(asked)
        if not asked.tools and not (script is not None and script.without_tools):
            return self._title(asked)
        script = script or Script()
        results = asked.results(without=self._spoiled)
        step, faults = _place(script, asked, results)
        fault = self._fault((dialect, asked.session, asked.first_call, asked.prompt), results, faults)
        answer = self._answer(asked, step)
        if fault is not None:
            self._spoiled.update(call.id for call in answer.calls)
        return Cue(fault or step, answer, script.name)

    def _fault(self, key: _Key, results: int, faults: list[tuple[int, Step]]) -> Step | None:
        """The fault that a conversation has not had yet, of those that stand where it is."""
        for index, each in faults:
            if self._happened[key, results, index] < each.times:
                self._happened[key, results, index] += 1
                return each
        # Whoever comes here again is another conversation with the same words.
        for index, _ in faults:
            del self._happened[key, results, index]
        return None

    def _script(self, asked: Asked) -> Script | None:
        prompt = asked.prompt
        short = squeezed(prompt)
        for script, piece in self._scripts:
            if re.search(script.regex, prompt) if script.regex is not None else piece in short:
                return script
        return None

    def _title(self, asked: Asked) -> Cue:
        text = TITLE if asked.schema is None else json.dumps(tools.filled(asked.schema))
        step = Step(text=text)
        return Cue(step, self._answer(asked, step), is_title=True)

    def _answer(self, asked: Asked, step: Step) -> Answer:
        self._answers += 1
        made = step
        if not step.results and asked.tools and tools.submits(asked.prompt):
            made = step.model_copy(update={"shell": f"echo {tools.SUBMIT}"})
        calls = tools.calls(made, asked.tools, self._new_call)
        said = Said(step.text or "", step.reasoning or "", calls)
        return answer(self._answers, said, step.usage, asked.input_tokens)

    def _new_call(self) -> str:
        self._calls += 1
        return f"call_{self._calls:08d}"


def _place(script: Script, asked: Asked, results: int) -> tuple[Step, list[tuple[int, Step]]]:
    """The step that a conversation has come to, and the faults that stand before it, with their places."""
    texts = asked.texts
    faults: list[tuple[int, Step]] = []
    for index, step in enumerate(script.steps):
        if step.is_fault:
            faults.append((index, step))
        elif step.results and results >= step.results:
            results -= step.results
            faults.clear()
        elif not step.results and texts:
            texts -= 1
            faults.clear()
        else:
            return step, faults
    return Step(text=script.final), faults

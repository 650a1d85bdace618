"""`loopfsm answer`: what is refused at the door, and that one question is answered once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.record import Message, Word
from tests.cli.plans import SPENT, TWO, Terminal, contents, started


def test_an_answer_takes_the_run_up_and_drives_it_to_its_end(terminal: Terminal) -> None:
    """The reply is told first, then what happens; the exit code is that of the outcome."""
    run_id = terminal.parked()
    terminal.connect()
    code, lines, _ = terminal.json("answer", run_id, "send", "--say", "go on", "retry")
    assert ("run", "reply", "event") == tuple(line["type"] for line in lines[:3])
    assert (True, True) == (lines[0]["resumed"], lines[1]["accepted"])
    assert (0, "COMPLETED") == (code, lines[-1]["state"])
    assert ["first", "send", "after"] == terminal.done()
    assert "QUES-01" in terminal.do("trace", run_id)[1]


def test_each_choice_has_its_outcome(terminal: Terminal) -> None:
    """`skip` goes on without the step, `stop` ends the run."""
    assert 5 == terminal.do("answer", terminal.parked(), "skip")[0]
    assert 4 == terminal.do("answer", terminal.parked(), "stop")[0]


def test_a_spent_budget_is_raised(terminal: Terminal) -> None:
    """The question is about the run; the number comes with the answer."""
    run_id = terminal.parked(SPENT)
    terminal.connect()
    assert 0 == terminal.do("answer", run_id, "run", "raise", "--to", "9")[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("answer", "nobody", "retry"), "no run 'nobody'"),
        (("answer", "last", "after", "retry"), "nothing is asked about 'after'"),
        (("answer", "last", "nothing", "retry"), "no step has that id"),
        (("answer", "last", "send", "agian"), "'agian' is no answer"),
        (("answer", "last", "raise", "--to", "3"), "'raise' is no answer"),
        (("answer", "last", "retry", "--to", "3"), "--to belongs to 'raise'"),
        (("answer", "last", "retry", "--token", "used"), "the token 'used' was used before"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_door(
    terminal: Terminal, journal: Path, words: tuple[str, ...], says: str
) -> None:
    """Exit 2; the journal keeps every byte, and no step runs."""
    run_id = terminal.parked()
    kept = SqliteJournal(journal)
    kept.send(run_id, Message(token="used", word=Word.CANCEL))
    kept.close()
    before = contents(journal.parent)
    code, shown, complaint = terminal.do(*words)
    assert (2, "") == (code, shown)
    assert says in complaint
    assert before == contents(journal.parent)
    assert ["first"] == terminal.done()


@pytest.mark.parametrize(
    ("words", "says"), [((), "needs a new limit"), (("--to", "1"), "is not above what is spent")]
)
def test_a_raise_needs_a_number_that_raises(
    terminal: Terminal, words: tuple[str, ...], says: str
) -> None:
    """Without one, or with one that changes nothing, it is refused."""
    run_id = terminal.parked(SPENT)
    code, _, complaint = terminal.do("answer", run_id, "raise", *words)
    assert code == 2
    assert says in complaint
    assert f"loopfsm answer {run_id} run raise --to N" in complaint


def test_an_unknown_choice_is_told_the_valid_ones_as_commands(terminal: Terminal) -> None:
    """Each with what it does, for a person and as data."""
    run_id = terminal.parked()
    _, _, complaint = terminal.do("answer", run_id, "what")
    command = f"loopfsm answer {run_id} send skip"
    assert f"  {command}  # go on without send, and 1 more that depend on it" in complaint
    _, (refused,), _ = terminal.json("answer", run_id, "what")
    assert ["retry", "skip", "stop"] == [each.split()[4] for each in refused["instead"]]


def test_with_two_questions_the_step_must_be_said(terminal: Terminal) -> None:
    """The step may be left out when only one question is open."""
    run_id = terminal.parked(TWO)
    code, _, complaint = terminal.do("answer", run_id, "skip")
    assert code == 2
    assert "2 questions are open" in complaint
    assert f"loopfsm answer {run_id} right retry" in complaint
    assert 3 == terminal.do("answer", run_id, "left", "skip")[0]
    assert 5 == terminal.do("answer", run_id, "skip")[0]


def test_a_question_that_was_answered_says_how(terminal: Terminal) -> None:
    """Whoever comes too late learns what was said."""
    run_id = terminal.parked(TWO)
    terminal.do("answer", run_id, "left", "skip")
    code, _, complaint = terminal.do("answer", run_id, "left", "retry")
    assert code == 2
    assert "its last question is ANSWERED: skip" in complaint


def test_an_ended_run_asks_nothing(terminal: Terminal) -> None:
    """The state in which it ended is told."""
    run_id = terminal.parked()
    terminal.do("answer", run_id, "stop")
    code, _, complaint = terminal.do("answer", run_id, "send", "retry")
    assert code == 2
    assert "has ended as ABSTAINED" in complaint


@pytest.mark.slow
def test_of_many_answers_at_once_exactly_one_is_accepted(terminal: Terminal) -> None:
    """Each of the others is told that it was refused, and why; nobody hangs."""
    run_id = terminal.parked()
    terminal.connect()
    processes = [started("answer", run_id, "send", "retry", "--json") for _ in range(6)]
    accepted = []
    for process in processes:
        shown, _ = process.communicate(timeout=60)
        lines = [json.loads(line) for line in shown.splitlines()]
        (verdict,) = (line for line in lines if line["type"] in ("reply", "refused"))
        if verdict.get("accepted"):
            accepted.append(process.returncode)
        else:
            assert process.returncode == 2
            assert verdict.get("reason") or verdict["problems"][0]["message"]
    assert [0] == accepted
    assert ["first", "send", "after"] == terminal.done()
    questions = terminal.json("show", run_id, "send")[1][0]["questions"]
    assert ["ANSWERED"] == [question["state"] for question in questions]


@pytest.mark.slow
def test_a_live_driver_takes_the_answer_and_goes_on(terminal: Terminal, tmp_path: Path) -> None:
    """The one who answers is told within a second or so, and does not drive."""
    plan = terminal.plan(
        TWO
        + '[[steps]]\nid = "long"\ntool = "shell"\n'
        + 'args = { command = "until test -e enough; do sleep 0.05; done" }\n'
    )
    with started("run", plan, "--json") as process:
        assert process.stdout is not None
        asked = 0
        while asked < 2:
            event = json.loads(process.stdout.readline())
            asked += event.get("noun") == "question"
        code, shown, _ = terminal.do("answer", "last", "left", "skip")
        assert code == 0
        assert shown.startswith("accepted by process")
        refused, _, complaint = terminal.do("answer", "last", "left", "skip")
        assert refused == 2
        assert "its last question is ANSWERED" in complaint
        code, shown, _ = terminal.do("cancel", "last", "--say", "enough")
        assert code == 0
        assert shown.endswith(": 1 step is finished first (long), and nothing more is started\n")
        (tmp_path / "enough").touch()
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 4
    assert "enough" in json.loads(rest.splitlines()[-1])["reason"]


def test_a_word_to_a_driver_that_dies_is_taken_by_whoever_sent_it(
    terminal: Terminal, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody holds the run one waits; when he leaves without a reply, one drives."""
    run_id = terminal.parked()
    terminal.connect()
    driver = SqliteJournal(journal)
    lease = driver.acquire(run_id, 1e9, 30.0)
    monkeypatch.setattr("loopfsm.cli.word.time.sleep", lambda _: lease.release(1e9))
    code, shown, _ = terminal.do("answer", run_id, "retry")
    driver.close()
    assert code == 0
    assert "accepted" in shown.splitlines()


def test_bytes_that_are_no_text_are_no_traceback(terminal: Terminal) -> None:
    """Whatever a shell hands over: a run that is not found, words that can be kept."""
    run_id = terminal.parked()
    for words in (("show", "\udcff"), ("answer", run_id, "\udcff"), ("answer", "\udcff", "stop")):
        assert 2 == terminal.do(*words)[0]
    assert 4 == terminal.do("answer", run_id, "stop", "--say", "\udcff", "--token", "\udcfe")[0]

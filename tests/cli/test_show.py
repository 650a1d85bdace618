"""`loopfsm show` and `trace`: how a run stands, and how it came to stand so."""

from __future__ import annotations

from tests.cli.plans import ASKING, SPENT, TWO, Terminal


def test_a_run_is_shown_with_all_that_stands(terminal: Terminal) -> None:
    """Steps with their states and attempts, budgets, outputs, what is asked and what to do."""
    run_id = terminal.parked(SPENT)
    lines = terminal.do("show", run_id)[1].splitlines()
    assert f"run {run_id}: tell them" == lines[0]
    assert "driven by: nobody" in lines
    assert "  first  VERIFIED_COMPLETED (1 attempt)" in lines
    assert "spent: steps 1 of 1" in lines
    assert f"    loopfsm answer {run_id} run stop" in {
        line.partition("  stop the")[0].rstrip() for line in lines
    }
    assert "Meanwhile: nothing else can run until this is answered; finished: first" in lines
    assert "WAITING_FOR_HUMAN  [tell them]" == lines[-1]


def test_a_step_is_shown_with_its_failures_and_events(terminal: Terminal) -> None:
    """Everything about that step, and nothing about the others."""
    run_id = terminal.parked()
    shown = terminal.do("show", run_id, "send")[1]
    assert f"step send of run {run_id}: WAITING_FOR_HUMAN" in shown
    assert "needs: first" in shown
    assert "failure: send (attempt 1), failed" in shown
    assert "STEP-22" in shown
    assert "question Q1" in shown
    assert "step first" not in shown


def test_an_unknown_step_names_near_ones(terminal: Terminal) -> None:
    """Exit 2."""
    code, _, complaint = terminal.do("show", terminal.parked(), "sned")
    assert code == 2
    assert "It has: send" in complaint


def test_what_can_still_run_comes_from_the_graph(terminal: Terminal) -> None:
    """A step that no open question blocks is named, with those that are finished."""
    more = TWO + '[[steps]]\nid = "free"\ntool = "shell"\nargs = { command = "true" }\n'
    _, lines, _ = terminal.json("run", terminal.plan(more))
    told = "nothing else can run until one of these is answered; finished: free"
    assert told == lines[-1]["meanwhile"]


def test_the_trace_tells_every_event_in_order(terminal: Terminal) -> None:
    """Numbered from 1, with the state before and after, folded from the events before."""
    run_id = terminal.parked()
    lines = terminal.do("trace", run_id)[1].splitlines()
    assert list(map(str, range(1, len(lines) + 1))) == [line.split()[0] for line in lines]
    assert "step send: PENDING -> READY" in " ".join(lines)
    assert "step send (attempt 1): RUNNING -> EVALUATION_FAILED" in " ".join(lines)
    assert "failure F1: UNHANDLED" in " ".join(lines)
    events = terminal.json("trace", run_id)[1]
    assert list(range(1, len(lines) + 1)) == [event["number"] for event in events]


def test_the_trace_is_what_the_run_has_told(terminal: Terminal) -> None:
    """The events of a run and those of its journal are the same, values included."""
    terminal.connect()
    _, lines, _ = terminal.json("run", terminal.plan(ASKING))
    told = [line for line in lines if line["type"] == "event"]
    kept = terminal.json("trace", "last")[1]
    assert told == [{k: v for k, v in event.items() if k != "number"} for event in kept]


def test_nothing_that_a_terminal_obeys_is_shown(terminal: Terminal) -> None:
    """Control sequences in goals, outputs, messages and words of people are taken out."""
    order = "\\u001b[31mred\\u0007"
    text = ASKING.replace("tell them", f"tell {order}").replace(
        "test -e net", f"echo '{order}' >&2; test -e net"
    )
    run_id = terminal.parked(text)
    for command in ("runs", "show last", "show last send", "trace last", "watch last"):
        shown = terminal.do(*command.split())[1]
        assert "red" in shown or command == "trace last"
        assert "\x1b" not in shown
        assert "\x07" not in shown
    _, shown, complaint = terminal.do("answer", run_id, "stop\x1b[31m")
    assert "\x1b" not in shown + complaint


WORDY = """\
goal = "talk"
[[steps]]
id = "talk"
tool = "shell"
args = { command = "seq 2" }
"""


def test_the_output_of_a_step_is_shown_whole(terminal: Terminal) -> None:
    """Line by line, as the tool has printed it."""
    terminal.do("run", terminal.plan(WORDY))
    shown = terminal.do("show", "last", "talk")[1]
    assert "    stdout:\n        1\n        2\n" in shown.partition("\noutput:\n")[2]
    assert "`--json` has all of it" not in shown


def test_a_very_long_output_is_cut(terminal: Terminal) -> None:
    """It says where the rest is, and there it is."""
    terminal.do("run", terminal.plan(WORDY.replace("seq 2", "seq 5000")))
    shown = terminal.do("show", "last", "talk")[1]
    assert "    ... (it is longer than this; `--json` has all of it)\n" in shown
    assert 4000 < len(shown) < 10_000
    (step,) = terminal.json("show", "last", "talk")[1]
    assert step["step"]["output"]["stdout"].endswith("5000\n")


def test_the_words_of_a_person_are_shown(terminal: Terminal) -> None:
    """With the run, with the step, and with the outcome where they have stopped the run."""
    run_id = terminal.parked()
    _, shown, _ = terminal.do("answer", run_id, "stop", "--say", "not\ntoday")
    assert shown.splitlines()[-1].endswith(" (said: not today)  [tell them]")
    for words in (("show", run_id), ("show", run_id, "send")):
        assert "answered: send: stop (not today)" in terminal.do(*words)[1].splitlines()
    assert terminal.json("show", run_id)[1][0]["reason"].endswith(" (said: not\ntoday)")


def test_no_word_of_the_outcome_is_said_twice(terminal: Terminal) -> None:
    """The state is its own word; the reason follows."""
    run_id = terminal.parked()
    terminal.do("answer", run_id, "stop")
    for command in ("show", "watch", "resume"):
        last = terminal.do(command, run_id)[1].splitlines()[-1]
        assert last.startswith("ABSTAINED: ")
        assert "abstained" not in last


def test_a_skipped_step_has_not_recovered(terminal: Terminal) -> None:
    """Its failure is told as what it was skipped after."""
    run_id = terminal.parked()
    _, shown, _ = terminal.do("answer", run_id, "skip")
    assert "skipped after: send (attempt 1), failed" in shown
    assert "recovered from" not in shown


def test_repeats_that_a_person_granted_are_outside_the_limit(terminal: Terminal) -> None:
    """More repeats than the limit allows are explained."""
    run_id = terminal.parked()
    assert "repeats: 0 of 0" in terminal.do("show", run_id, "send")[1]
    terminal.do("answer", run_id, "retry")
    shown = terminal.do("show", run_id, "send")[1]
    assert "repeats: 1, 1 of them granted by a person beyond the limit of 0" in shown

"""The example of a clinic: it starts with one command, and acts only after a yes."""

from __future__ import annotations

import datetime as dt
import importlib.util
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import load_dataset
from jazzmine_dspy.datasets.check import check_dataset
from prompt_brain import brain

CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic"
BOOKING = ("I'd like an appointment", "a check-up", "next tuesday", "11 o'clock", "Bella")


class Talk:
    """The program in a process of its own, one message at a time."""

    def __init__(self, database: Path, *options: str) -> None:
        self._database = database
        self._process = subprocess.Popen(
            [sys.executable, str(CLINIC / "talk.py"), "--db", str(database), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def say(self, *texts: str) -> str:
        """The reply to the last message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        reply = ""
        for text in texts:
            self._process.stdin.write(f"{text}\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == f"you> {text}\n"
            reply = self._process.stdout.readline().removeprefix("bot> ").strip()
        return reply

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What the database holds."""
        with closing(sqlite3.connect(self._database)) as db, db:
            return db.execute(query, values).fetchall()

    def close(self) -> int:
        """End the input, and wait for the end."""
        self._process.communicate(timeout=60)
        return self._process.returncode


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path / "clinic.db")
    yield talk
    assert talk.close() == 0


def test_the_demonstration_runs_in_one_command() -> None:
    command = [sys.executable, str(CLINIC / "talk.py"), "--script"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    replies = [line for line in done.stdout.splitlines() if line.startswith("bot> ")]
    assert len(replies) == len((CLINIC / "script.txt").read_text("utf-8").splitlines())
    assert replies[2] == "bot> We are closed on Sundays. Which day would suit you?"
    assert "check-up £45.00" in replies[4]
    assert replies[7].endswith("at 11:00. Shall I book it?")
    assert replies[8].startswith("bot> It is booked, the code is A103. Bella has an appointment on")
    assert replies[9] == "bot> A nail trim costs £18.00."
    assert replies[12] == "bot> Appointment A101 is cancelled."
    booked = replies[8].partition(" on ")[2]
    assert replies[14] == f"bot> A103: Bella, check-up, on {booked}", "days are said alike"
    assert "A101" not in replies[14]


def test_an_appointment_is_booked_moved_and_cancelled_only_after_a_yes(talk: Talk) -> None:
    assert talk.say(*BOOKING).endswith("at 11:00. Shall I book it?")
    booked = "SELECT pet, service, time, cancelled FROM appointments WHERE id = 103"
    assert talk.rows(booked) == []
    assert "A103" in talk.say("yes")
    assert talk.rows(booked) == [("Bella", "check-up", "11:00", 0)]

    assert talk.say("can you move A103 to next thursday at 4pm?").endswith("Shall I move it?")
    assert talk.rows(booked)[0][2] == "11:00"
    talk.say("yes")
    assert talk.rows(booked)[0][2] == "16:00"

    assert talk.say("please cancel A103") == "Cancel appointment A103. Shall I go ahead?"
    talk.say("no, leave it")
    assert talk.rows(booked)[0][3] == 0
    talk.say("please cancel A103", "yes")
    assert talk.rows(booked)[0][3] == 1
    assert "There is no appointment A103." in talk.say("please cancel A103")


def test_a_failed_action_is_answered_and_the_conversation_goes_on(talk: Talk) -> None:
    confirm = talk.say(*BOOKING)
    written = confirm.partition(" on ")[2].partition(" at ")[0]
    day = dt.datetime.strptime(written, "%d %B %Y").date().isoformat()
    # Somebody else takes the time between the question and the yes.
    taken = "INSERT INTO appointments (pet, service, day, time) VALUES ('Milo', 'check-up', ?, '11:00')"
    talk.rows(taken, day)
    assert talk.say("yes").endswith("To try again, say: book an appointment.")
    assert talk.rows("SELECT pet FROM appointments WHERE day = ?", day) == [("Milo",)]
    assert talk.say("when are you open?").startswith("We are open Monday to Friday")
    assert talk.say("book an appointment").startswith("What is it for")
    said = talk.say("a check-up", day, "11:00")
    assert said.startswith("11:00 is not free on that day, but 11:30, 12:00, 12:30 would be. Which time")


def test_checks_reject_what_the_clinic_cannot_do(talk: Talk) -> None:
    assert "Rex is not registered with us." in talk.say(*BOOKING[:4], "Rex")
    assert talk.say("I want to register my dog", "Rex", "07700 900555").endswith("Shall I do that?")
    talk.say("yes")
    assert talk.rows("SELECT species, phone FROM patients WHERE name = 'rex'") == [("dog", "+447700900555")]


def test_a_language_model_decides_and_answers_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(body: dict[str, Any]) -> str:
        asked = str(body["messages"][-1]["content"])
        if "facts" in asked:
            assert "There is free parking behind the house." in asked
            return "[[ ## answer ## ]]\nYes, please do.\n\n[[ ## completed ## ]]"
        return labelled(body)

    labelled = brain(CLINIC, right=True)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with FakeOpenAI(flavour="vllm", answer=answer) as server:
        talk = Talk(tmp_path / "clinic.db", "--lm", "openai/some", "--api-base", server.address)
        # Without the model, the first is not understood.
        assert talk.say("yearly check for Oscar").startswith(
            "Noted, what it is for: check-up. Oscar is not registered with us."
        )
        assert talk.say("cheers. can i park at yours?").startswith("Yes, please do.")
        assert talk.close() == 0
        assert server.refused == []


def clinic_at(now: str, database: Path) -> Any:
    """The clinic of the example, with its clock at a time."""
    spec = importlib.util.spec_from_file_location("clinic", CLINIC / "clinic.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    moment = dt.datetime.fromisoformat(now).replace(tzinfo=module.ZONE)
    return module.Clinic(database, clock=moment.timestamp)


def test_times_that_are_over_are_not_booked(tmp_path: Path) -> None:
    clinic = clinic_at("2026-07-03T16:40", tmp_path / "clinic.db")
    day = {"day": "2026-07-03"}
    said = clinic.check_time("09:00", day)
    assert said == "09:00 is not free on that day, but 17:00, 17:30 would be"
    assert clinic.check_time("17:00", day) is True
    assert clinic.check_time("09:00", {"day": "2026-07-04"}) is True
    late = clinic_at("2026-07-03T17:30", tmp_path / "clinic.db")
    assert late.check_day("2026-07-03") == "We have no time left on that day"
    assert late.check_time("17:30", day) == "17:30 is not free on that day"


def test_a_failed_move_says_what_is_understood(talk: Talk) -> None:
    assert talk.say("move A101", "next thursday", "4pm").endswith("Shall I move it?")
    talk.rows("UPDATE appointments SET cancelled = 1")
    assert talk.say("yes").endswith("To try again, say: move A101.")
    talk.rows("UPDATE appointments SET cancelled = 0")
    assert talk.say("move A101") == "Noted, the code of your appointment: A101. To which day shall I move it?"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--db", "none/clinic.db"),
            "Cannot use none/clinic.db: unable to open database file. Name a database",
        ),
        (("--db", str(CLINIC / "flows.yaml")), "flows.yaml: file is not a database. Name a database"),
        (("--api-base", "http://127.0.0.1:1"), "name the model with --lm"),
    ],
)
def test_options_that_cannot_be_used_end_it_with_what_to_do(options: tuple[str, ...], says: str) -> None:
    command = [sys.executable, str(CLINIC / "talk.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_model_ends_it_with_one_line() -> None:
    command = [sys.executable, str(CLINIC / "talk.py"), "--script", "--lm", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("The language model 'nothing' names no provider")
    assert len(done.stderr.splitlines()) == 1


def test_its_conversations_are_labelled_without_errors() -> None:
    report = check_dataset(CLINIC)
    assert report.errors == ()
    # "102" and "a one three nine" are the codes A102 and A139.
    assert not [each for each in report.warnings if "occurs neither" in each.message]
    dataset = load_dataset(CLINIC)
    turns = dataset.examples("train", "dev_a", "dev_b")
    assert all(example.labels.commands is not None and example.labels.enhanced for example in turns)

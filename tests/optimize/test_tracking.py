"""What a run leaves in MLflow, and what it says meanwhile."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("mlflow")

from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.tracking import Tracker


def test_a_new_store_is_made_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    talkative = logging.getLogger("mlflow.store.db.utils")
    # A store that was opened before may have disabled all loggers that there were.
    monkeypatch.setattr(talkative, "disabled", False)
    level = talkative.level
    talkative.setLevel(logging.INFO)
    talkative.addHandler(caplog.handler)  # what MLflow says does not reach the root
    try:
        talkative.info("heard")
        tracker = Tracker("", tmp_path, "quiet")
        assert talkative.level == logging.INFO
    finally:
        talkative.removeHandler(caplog.handler)
        talkative.setLevel(level)
    tracker.metrics({"right": 0.5, "lost": float("nan")})
    tracker.close()
    assert {record.message for record in caplog.records if record.name == talkative.name} == {"heard"}
    assert (tmp_path / "mlflow.db").is_file()


def test_what_is_passed_on_names_no_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tracker = Tracker("", Path(".jazzmine"), "here")
    tracker.close()
    assert tracker.facts["uri"] == "sqlite:///.jazzmine/mlflow.db"


def test_a_store_that_cannot_be_opened_is_told_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="store cannot be used") as told:
        Tracker("nowhere://", tmp_path, "lost")
    assert "tracking = 'none'" in (told.value.remedy or "")


def test_an_address_is_told_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="store cannot be used") as told:
        Tracker("nowhere://bob77:pa/ss@store.test/db?token=secret", tmp_path, "lost")
    for secret in ("bob77", "pa/ss", "secret"):
        assert secret not in str(told.value)
    assert "nowhere://store.test/db" in str(told.value)

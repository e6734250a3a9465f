"""Raw option values become one frozen object, with the origin of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.cases.attack_registry import Roster
from grb_check.cases.case import parse_node_id
from grb_check.errors import UsageError
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI
from grb_check.settings.settings import STORE_VARIABLE, check_thresholds


def test_nothing_given_is_the_smoke_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to configure."""
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    made = settings(tmp_path, model=["mypkg:build"])
    assert [source.name for source in made.datasets] == ["synthetic-cora"]
    assert made.repeats == 3
    assert made.store == tmp_path / ".grb_check"
    assert set(made.origins.values()) == {COMMAND_LINE, DEFAULT}
    assert len(made.cases()) == 15


def test_the_command_line_wins_over_the_ini_file(tmp_path: Path) -> None:
    """And the origin says so."""
    made = settings(tmp_path, ini={"repeats": 5, "suite": "standard"}, repeats="2")
    assert (made.repeats, made.origins["grb_repeats"]) == (2, COMMAND_LINE)
    assert (made.suite, made.origins["grb_suite"]) == ("standard", INI)


def test_lists_are_repeated_or_separated_by_commas(tmp_path: Path) -> None:
    """And come out in the catalogue's order, each once."""
    made = settings(tmp_path, difficulty=["hard,easy", "easy"], attack=["fgsm", "dice"])
    assert made.difficulties == ("easy", "hard")
    assert made.attacks == (("injection", "fgsm"), ("modification", "dice"))


def test_several_models_get_labels(tmp_path: Path) -> None:
    """The attribute, numbered where it repeats, or what the user says."""
    made = settings(tmp_path, model=["a:GCN", "b:GCN", "mine=c:build"])
    assert made.labels == ("GCN", "GCN-2", "mine")
    assert settings(tmp_path, model=["a:GCN"]).labels == ("",)
    with pytest.raises(UsageError, match=r"label 'a\\x1bb' may not contain .* cannot be printed"):
        settings(tmp_path, model=["a\x1bb=a:GCN", "b:GCN"])
    with pytest.raises(UsageError, match="two models have the label 'x'"):
        settings(tmp_path, model=["x=a:GCN", "x=b:GCN"])


def test_model_arguments_are_for_all_models_or_one_for_each(tmp_path: Path) -> None:
    """Any other number is a mistake."""
    two = ["a:GCN", "b:GIN"]
    shared = settings(tmp_path, model=two, model_args=["width=3"])
    assert [model.args for model in shared.models] == [{"width": 3}, {"width": 3}]
    each = settings(tmp_path, model=two, model_args=["width=3", "depth=2"])
    assert [model.args for model in each.models] == [{"width": 3}, {"depth": 2}]
    with pytest.raises(UsageError, match="given 3 times for 2 models"):
        settings(tmp_path, model=two, model_args=["a=1", "b=1", "c=1"])


def test_two_datasets_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their cases could not be told apart."""
    for folder in ("a", "b"):
        (tmp_path / folder / "mine").mkdir(parents=True)
        for name in ("adj", "features", "labels", "index"):
            (tmp_path / folder / "mine" / f"{name}.npz").touch()
    both = [str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")]
    with pytest.raises(UsageError, match="two datasets have the name 'mine'"):
        settings(tmp_path, dataset=both)
    made = settings(tmp_path, dataset=[both[0], f"other={both[1]}"])
    assert [source.name for source in made.datasets] == ["mine", "other"]


def test_a_node_id_widens_the_selection_to_its_case(tmp_path: Path) -> None:
    """Whatever the other options leave out."""
    made = settings(tmp_path, model=["a:b"], difficulty=["easy"], attack=["fgsm"])
    wanted = parse_node_id("grb::synthetic-cora::test_attack[full/modification/dice]")
    assert not any(map(wanted.selects, made.cases()))
    assert any(map(wanted.selects, made.for_node_ids([wanted], Roster()).cases()))


def test_the_paper_suite_says_where_its_datasets_must_be(tmp_path: Path) -> None:
    """They cannot be shipped; the message says which suite asked for them."""
    with pytest.raises(UsageError, match=r"suite 'paper': .*grb-cora.*--grb-data"):
        settings(tmp_path, suite="paper")


def test_a_comma_inside_a_setting_does_not_part_attacks(tmp_path: Path) -> None:
    """Unless an attack's name follows."""
    with pytest.raises(UsageError, match="'5,dcie' is not a whole number; no attack has the name"):
        settings(tmp_path, attack=["fgsm+iterations=5,dcie"])
    made = settings(tmp_path, attack=["rnd+removal_share=0.25,dice", "fgsm+iterations=5"])
    assert made.attacks == (
        ("injection", "fgsm+iterations=5"),
        ("modification", "rnd+removal_share=0.25"),
        ("modification", "dice"),
    )


def test_a_suite_has_its_own_attacks(tmp_path: Path) -> None:
    """A scenario keeps some of them; one that leaves none is an error."""
    made = settings(tmp_path, scenario=["modification"])
    assert made.attacks == (("modification", "rnd"), ("modification", "dice"))
    with pytest.raises(UsageError, match="'paper' has no attack of scenario modification; name"):
        settings(tmp_path, suite="paper", scenario=["modification"], dataset=["synthetic-cora"])


def test_patterns_name_attacks_in_any_spelling(tmp_path: Path) -> None:
    """Of --grb-case and of thresholds."""
    written, spelled = "*/fgsm+patience=none+iterations=5", "*/fgsm+iterations=5+patience=none"
    made = settings(tmp_path, attack=[written[2:]], case=[written], threshold=[f"{written}=0.3"])
    assert made.patterns == (spelled,)
    assert [each.pattern for each in made.gate.thresholds] == [spelled]
    assert {case.attack for case in made.cases()} == {spelled[2:]}


def test_a_threshold_may_name_an_attack_that_is_not_run_today(tmp_path: Path) -> None:
    """A variant always; an unknown one where the command line replaced the ini file's attacks."""
    limits = {"threshold": ["*/fgsm+iterations=5 = 0.3"]}
    check_thresholds(settings(tmp_path, ini=limits), Roster())
    unknown = {"threshold": ["*/injection/mine = 0.3"]}
    check_thresholds(settings(tmp_path, ini=unknown, attack=["rnd"]), Roster())
    with pytest.raises(UsageError, match="'\\*/injection/mine' matches no known case"):
        check_thresholds(settings(tmp_path, ini=unknown), Roster())
    with pytest.raises(UsageError, match="unknown modifier of attack injection/fgsm 'iteration=5'"):
        settings(tmp_path, threshold=["*/fgsm+iteration=5 = 0.3"])


def test_each_budget_makes_cases_of_its_own(tmp_path: Path) -> None:
    """From the command line or the ini file; a node id from such a run is known in another."""
    given = {"model": ["a:b"], "difficulty": ["easy"], "attack": ["dice,modification/worst"]}
    made = settings(tmp_path, budget=["10%,0.01", "0.1"], **given)
    assert made.budgets == (0.01, 0.1)
    assert [case.attack for case in made.cases()] == [
        "dice+budget=0.01",
        "dice+budget=0.1",
        "worst+budget=0.01",
        "worst+budget=0.1",
    ]
    assert settings(tmp_path, ini={"budget": ["0.01", "0.1"]}, **given).cases() == made.cases()
    assert len(settings(tmp_path, budget=["0.1,0.2"], case=["*/dice"], **given).cases()) == 2
    printed = parse_node_id("grb::synthetic-cora::test_attack[easy/modification/dice+budget=0.1]")
    plain = settings(tmp_path, model=["a:b"]).for_node_ids([printed], Roster())
    assert any(map(printed.selects, plain.cases()))


def test_thresholds_know_budgets_and_the_worst(tmp_path: Path) -> None:
    """In any spelling of theirs."""
    limits = ["*/dice+budget=10%=0.3", "*/worst=0.5", "*/modification/worst+budget=.1 = 0.4"]
    made = settings(tmp_path, threshold=limits)
    check_thresholds(made, Roster())
    assert [each.pattern for each in made.gate.thresholds] == [
        "*/dice+budget=0.1",
        "*/worst",
        "*/modification/worst+budget=0.1",
    ]


def test_diagnostics_are_strict_where_asked(tmp_path: Path) -> None:
    """By the flag or the ini value."""
    assert not settings(tmp_path).gate.strict_diagnostics
    assert settings(tmp_path, strict_diagnostics=True).gate.strict_diagnostics
    assert settings(tmp_path, ini={"strict_diagnostics": True}).gate.strict_diagnostics


def test_ranks_are_asked_for_by_words_and_lines(tmp_path: Path) -> None:
    """Paths of the ini file start at the root folder; lines and lists with commas mix."""
    made = settings(
        tmp_path,
        ini={"min_rank": ["*/full = 5", "a/easy=1,b/easy=2"], "rank_against": ["published,x.json"]},
    )
    assert made.comparison_models == ComparisonModels(published=True, files=(tmp_path / "x.json",))
    assert [(each.pattern, each.rank) for each in made.rank_limits] == [
        ("*/full", 5),
        ("a/easy", 1),
        ("b/easy", 2),
    ]
    given = settings(tmp_path, rank_against=["./x.json", "gat"])
    assert given.comparison_models == ComparisonModels(
        defences=("gat",), files=(tmp_path / "sub" / "x.json",)
    )
    assert not settings(tmp_path).comparison_models
    with pytest.raises(UsageError, match="--grb-rank-against was given without a value"):
        settings(tmp_path, rank_against=[""])


def test_the_delta_is_to_the_reference_or_to_a_model_of_the_run(tmp_path: Path) -> None:
    """A model that the ini file names may be absent from the command line's."""
    two = ["a=pkg:a", "b=pkg:b"]
    assert settings(tmp_path, model=two).delta_to == ""
    assert settings(tmp_path, model=two, delta_to="b").delta_to == "b"
    assert settings(tmp_path, model=two, delta_to="reference").delta_to == ""
    assert settings(tmp_path, ini={"model": ",".join(two), "delta_to": "a"}).delta_to == "a"
    assert settings(tmp_path, ini={"delta_to": "a"}).delta_to == ""
    assert settings(tmp_path, ini={"delta_to": "a"}, model=["c=pkg:c"]).delta_to == ""
    with pytest.raises(UsageError, match=r"--grb-delta-to 'B'; allowed: a, b, reference"):
        settings(tmp_path, model=two, delta_to="B")
    with pytest.raises(UsageError, match=r"--grb-delta-to 'a' is the only model of the run; add "):
        settings(tmp_path, model=two[:1], delta_to="a")
